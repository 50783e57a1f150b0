//! Every schedule there is, over several sizes: it trains like one rank alone, and takes the memory that is foretold.

use std::collections::{BTreeMap, HashMap};

use crate::harness::{assert_close, bits, run, run_on, try_config};
use pp_schedule::simulate::{Costs, Report, Sends, StageBytes, Timeline};
use pp_schedule::{Order, ScheduleKind, WorkKind};
use pp_train::{Outcome, Text, TrainConfig};

use crate::process::{self, Scratch, start, trainer};

/// 24 layers go into 1, 2, 3 and 4 ranks with one chunk each or two.
const SIZES: &str =
    "--num-layers 24 --hidden-size 8 --seq-length 8 --micro-batch-size 1 --train-iters 2 --eval-iters 1";

/// Every kind over 1 to 4 ranks, one chunk and two, few microbatches and many: all that its rules take.
fn all() -> Vec<(String, TrainConfig)> {
    let mut configs: Vec<(String, TrainConfig)> = Vec::new();
    for kind in ScheduleKind::ALL {
        let before = configs.len();
        for (pp, vp) in (1..=4).flat_map(|pp| [(pp, 1), (pp, 2)]) {
            for m in [1, 2, 3, 8] {
                let bubbles = match kind {
                    ScheduleKind::InterleavedZb | ScheduleKind::DualPipeV => "--allow-bubbles",
                    _ => "",
                };
                let line = format!("{SIZES} --schedule {kind} --pp {pp} --vp {vp} --microbatches {m} {bubbles}");
                // The same schedule with two chunks, by default and said.
                let taken = |config: &TrainConfig| configs.iter().any(|(_, other)| other.plan() == config.plan());
                if let Ok(config) = try_config(&line)
                    && !taken(&config)
                {
                    configs.push((line, config));
                }
            }
        }
        let least = if kind == ScheduleKind::NoPipelining { 8 } else { 3 };
        assert!(configs.len() - before >= least, "{kind}: {} configurations", configs.len() - before);
    }
    configs
}

/// Whether every stage adds its weight gradients in ascending order of microbatches, as one rank alone does.
fn ascends(order: &Order) -> bool {
    let mut last = HashMap::new();
    let adds =
        order.rows().iter().flatten().filter(|work| matches!(work.kind, WorkKind::Backward | WorkKind::BackwardWeight));
    adds.into_iter().all(|work| last.insert(work.stage, work.microbatch).is_none_or(|before| before < work.microbatch))
}

/// The slots that the executor counted, against the closed form or the file's program, and the simulation.
pub(crate) fn memory_is_as_foretold(line: &str, config: &TrainConfig, outcome: &Outcome) {
    let program = config.plan().training_program().unwrap();
    let timeline = Timeline::of_program(&program, &Costs::UNIT, Sends::Eager).unwrap();
    let report = Report::new(&timeline, |_| StageBytes::default());
    for (rank, counted) in report.ranks.iter().zip(&outcome.ranks) {
        assert_eq!(counted.peak_saved, rank.peak_saved as usize, "{line}, rank {}", rank.rank);
        assert_eq!(counted.peak_deferred, rank.peak_deferred as usize, "{line}, rank {}", rank.rank);
        assert_eq!(config.plan().peaks_saved()[rank.rank.idx()], rank.peak_saved, "{line}, rank {}", rank.rank);
    }
}

#[test]
fn every_schedule_trains_like_one_rank_in_the_memory_foretold() {
    let mut whole: BTreeMap<u32, Outcome> = BTreeMap::new();
    let mut n_equal = 0;
    for (line, config) in all() {
        let m = config.plan().microbatches();
        let whole = whole.entry(m).or_insert_with(|| run(&format!("{SIZES} --microbatches {m}")));
        let cut = run_on(&config, &Text::load(&config).unwrap(), 1);
        if ascends(&config.plan().order()) {
            assert_eq!(bits(&cut), bits(whole), "{line}");
            n_equal += 1;
        } else {
            assert!(["gpipe", "looped-bfs"].iter().any(|reverse| line.contains(reverse)), "{line}");
            assert_close(&cut, whole, 1e-5);
        }
        memory_is_as_foretold(&line, &config, &cut);
    }
    assert!(n_equal > 60, "only {n_equal} were equal to the bit");
}

/// What the last line of a metrics file says of the weights.
pub(crate) fn weights(metrics: &std::path::Path) -> String {
    let text = std::fs::read_to_string(metrics).unwrap();
    let last = text.lines().last().unwrap();
    let (_, rest) = last.split_once("\"weights_fingerprint\":\"").unwrap();
    rest[..32].to_owned()
}

/// Both ends of the model on one process, and messages over sockets.
#[test]
fn processes_with_stages_in_a_v_train_like_one_alone() {
    let scratch = Scratch::new("v");
    let sizes =
        process::TINY.replace("--num-layers 2", "--num-layers 4").replace("--microbatches 2", "--microbatches 6");
    let alone = scratch.file("alone");
    assert_eq!(process::run(&format!("{sizes} --metrics {}", alone.display())).code, Some(0));
    for schedule in ["zb-v", "dualpipe-v", "interleaved-zb --vp 2"] {
        let (meeting, metrics) = (scratch.file("meeting"), scratch.file("metrics"));
        let ranks = [0, 1].map(|rank| {
            start(&mut trainer(&format!(
                "{sizes} --schedule {schedule} --pp 2 --world-size 2 --rank {rank} --timeout 30 --rendezvous-file {} --metrics {}",
                meeting.display(),
                metrics.display()
            )))
        });
        for ended in ranks.map(process::Running::wait) {
            assert_eq!(ended.code, Some(0), "{schedule}: {ended:?}");
        }
        assert_eq!(weights(&metrics), weights(&alone), "{schedule}");
    }
}
