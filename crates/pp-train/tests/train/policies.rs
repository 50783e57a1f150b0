//! Every lowering policy trains to the same bits: it decides when bytes travel, and nothing else.

use crate::harness::{bits, config, run, run_on, try_config};
use crate::process::{self, Scratch, start, trainer};
use crate::schedules::{memory_is_as_foretold, weights};
use pp_schedule::lower::Policy;
use pp_train::Text;

/// 36 layers go into 1 to 4 ranks with 1, 2 and 3 chunks each.
const SIZES: &str =
    "--num-layers 36 --hidden-size 8 --seq-length 8 --micro-batch-size 1 --train-iters 2 --eval-iters 1";

#[test]
fn every_policy_trains_like_lanes_in_the_memory_foretold() {
    let (mut n_taken, mut n_refused) = (0, 0);
    for (pp, vp) in (1..=4).flat_map(|pp| (1..=3).map(move |vp| (pp, vp))) {
        for m in [pp, 3 * pp] {
            let sizes = format!("{SIZES} --num-layers {} --pp {pp} --vp {vp} --microbatches {m}", pp * vp);
            let lanes = config(&sizes);
            let lanes = bits(&run_on(&lanes, &Text::load(&lanes).unwrap(), 1));
            for (name, _) in Policy::ALL.into_iter().filter(|(name, _)| *name != "lanes") {
                let line = format!("{sizes} --policy {name}");
                let Ok(config) = try_config(&line) else {
                    n_refused += 1;
                    continue;
                };
                let outcome = run_on(&config, &Text::load(&config).unwrap(), 1);
                assert_eq!(bits(&outcome), lanes, "{line}");
                memory_is_as_foretold(&line, &config, &outcome);
                n_taken += 1;
            }
        }
    }
    assert!(n_taken > 70 && n_refused > 20, "{n_taken} taken, {n_refused} refused");
}

#[test]
fn a_policy_is_told_and_validates_between_steps() {
    let line = "--pp 3 --num-layers 6 --microbatches 6 --eval-interval 2 --train-iters 4";
    for policy in ["stagger", "megatron"] {
        let often = format!("{line} --policy {policy}");
        assert_eq!(bits(&run(&often)), bits(&run(line)), "{policy}");
        assert_ne!(config(&often).plan(), config(line).plan());
    }
}

#[test]
fn a_schedule_in_a_file_has_transfers_of_its_own() {
    let scratch = Scratch::new("policy");
    let file = scratch.write("csv", "0F0,0B0\n");
    for flag in ["--policy lanes", "--p2p-overlap steady", "--no-batch-p2p-communication"] {
        let refused = try_config(&format!("--schedule-csv {} {flag}", file.display())).unwrap_err().to_string();
        let named = flag.split_whitespace().next().unwrap();
        assert!(refused.starts_with(named) && refused.contains("gives one; leave one out"), "{refused}");
    }
}

/// Over sockets, and with what rank 0 proved and the others built.
#[test]
fn processes_train_alike_by_every_policy() {
    let scratch = Scratch::new("policies");
    let sizes =
        process::TINY.replace("--num-layers 2", "--num-layers 6").replace("--microbatches 2", "--microbatches 6");
    let alone = scratch.file("alone");
    assert_eq!(process::run(&format!("{sizes} --metrics {}", alone.display())).code, Some(0));
    for policy in ["--policy stagger", "--policy megatron --p2p-issue ring", "--vp 2 --policy megatron-flush"] {
        let (meeting, metrics) = (scratch.file("meeting"), scratch.file("metrics"));
        let ranks = [0, 1, 2].map(|rank| {
            start(&mut trainer(&format!(
                "{sizes} {policy} --pp 3 --world-size 3 --rank {rank} --timeout 30 --rendezvous-file {} --metrics {}",
                meeting.display(),
                metrics.display()
            )))
        });
        for (rank, ended) in ranks.map(process::Running::wait).into_iter().enumerate() {
            assert_eq!(ended.code, Some(0), "{policy}: {ended:?}");
            assert!(rank > 0 || ended.stdout.contains("--microbatches 6 --policy "), "{policy}: {ended:?}");
        }
        assert_eq!(weights(&metrics), weights(&alone), "{policy}");
    }
}
