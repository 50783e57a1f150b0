//! Microbatches of several lengths train to the same bits however the model is cut, whatever the messages go through.

use crate::harness::{bits, config, run, try_config};
use crate::process::{self, Scratch, start, trainer};
use crate::schedules::weights;
use pp_schedule::lower::Policy;
use pp_train::Text;

/// Four microbatches, no two alike, none of the full length of 16.
const FOUR: &str = "--microbatches 4 --variable-seq-lengths 5,7,3,9 --train-iters 4 --eval-interval 2";

#[test]
fn every_cut_and_policy_trains_to_the_same_bits() {
    let (eight, six) = (bits(&run(FOUR)), bits(&run(&format!("{FOUR} --num-layers 6"))));
    let mut taken = Vec::new();
    for cut in ["", "--pp 2", "--pp 2 --vp 2", "--pp 4", "--pp 4 --vp 2", "--pp 3 --num-layers 6"] {
        for (policy, _) in Policy::ALL {
            let line = format!("{FOUR} {cut} --policy {policy}");
            if try_config(&line).is_ok() {
                assert_eq!(&bits(&run(&line)), if cut.contains("layers") { &six } else { &eight }, "{line}");
                taken.push((cut, policy));
            }
        }
    }
    // As a ring, two ranks with two chunks each could take an activation for a gradient: no policy that would is taken.
    for case in [
        ("--pp 2", "megatron"),
        ("--pp 2 --vp 2", "lanes"),
        ("--pp 2 --vp 2", "megatron-overlap"),
        ("--pp 4", "megatron"),
        ("--pp 4 --vp 2", "megatron-ring"),
    ] {
        assert!(taken.contains(&case), "{case:?} is not among {taken:?}");
    }
}

#[test]
fn schedules_with_split_and_paired_backwards_take_them() {
    for (m, schedule) in [(8, "zb-v"), (8, "dualpipe-v"), (8, "zb-h1"), (4, "gpipe --gpipe-backward ascending")] {
        let lengths = format!("--microbatches {m} --variable-seq-lengths 5,7,3 --train-iters 2");
        assert_eq!(bits(&run(&format!("{lengths} --pp 2 --schedule {schedule}"))), bits(&run(&lengths)), "{schedule}");
    }
}

#[test]
fn a_step_counts_the_tokens_of_its_lengths() {
    // In turn, and again from the first.
    let line = "--microbatches 6 --variable-seq-lengths 5,7,3,9 --train-iters 2";
    assert_eq!(config(line).tokens_per_step(), 2 * (5 + 7 + 3 + 9 + 5 + 7));
    assert!(run(line).iterations.iter().all(|record| record.tokens == 72));
    // Full lengths change nothing; others do.
    let plain = "--microbatches 4 --train-iters 2";
    assert_eq!(bits(&run(&format!("{plain} --variable-seq-lengths 16"))), bits(&run(plain)));
    assert_ne!(bits(&run(&format!("{plain} --variable-seq-lengths 16,15"))), bits(&run(plain)));
}

#[test]
fn sequences_are_beginnings_of_those_of_full_length() {
    let line = "--microbatches 4 --micro-batch-size 2";
    let (full, cut) = (config(line), config(&format!("{line} --variable-seq-lengths 5,7,3,9")));
    let text = Text::load(&full).unwrap();
    for iteration in [0, 7] {
        let (full, cut) = (text.training_batch(&full, iteration), text.training_batch(&cut, iteration));
        assert_eq!(full.len(), cut.len());
        for ((full, cut), length) in full.iter().zip(&cut).zip([5, 7, 3, 9]) {
            let begins = |full: &[u32]| full.chunks(16).flat_map(|one| one[..length].to_vec()).collect::<Vec<_>>();
            assert_eq!(cut.tokens, begins(&full.tokens));
            let labels: Vec<u32> = full.labels.iter().map(|&label| label as u32).collect();
            assert_eq!(cut.labels.iter().map(|&label| label as u32).collect::<Vec<_>>(), begins(&labels));
        }
        let validation = |config| text.validation_batch(config, 0);
        assert_eq!(validation(&config(line)), validation(&config(&format!("{line} --variable-seq-lengths 5"))));
    }
}

/// Over sockets and through shared memory, and the lengths are told before anything starts.
#[test]
fn processes_train_alike_over_every_transport() {
    let scratch = Scratch::new("lengths");
    let sizes = process::TINY.replace("--num-layers 2", "--num-layers 4").replace("--microbatches 2", FOUR);
    let alone = scratch.file("alone");
    let ended = process::run(&format!("{sizes} --metrics {}", alone.display()));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    for (policy, transport) in
        [("lanes", "socket"), ("lanes", "shm"), ("megatron-overlap", "socket"), ("megatron-overlap", "shm")]
    {
        let (meeting, metrics) = (scratch.file("meeting"), scratch.file("metrics"));
        let ranks = [0, 1].map(|rank| {
            start(&mut trainer(&format!(
                "{sizes} --pp 2 --vp 2 --policy {policy} --transport {transport} --world-size 2 --rank {rank} --timeout 30 --rendezvous-file {} \
                 --metrics {}",
                meeting.display(),
                metrics.display()
            )))
        });
        for (rank, ended) in ranks.map(process::Running::wait).into_iter().enumerate() {
            assert_eq!(ended.code, Some(0), "{policy} {transport}: {ended:?}");
            let told = "8 sequences, 5,7,3,9 tokens long in turn, 48 tokens a step";
            assert!(rank > 0 || ended.stdout.contains(told), "{policy} {transport}: {ended:?}");
        }
        assert_eq!(weights(&metrics), weights(&alone), "{policy} {transport}");
    }
}

/// Shapes go before the step's first message: without them, that one is not taken for what it is not.
#[test]
fn shapes_come_before_the_first_message_of_a_step() {
    let scratch = Scratch::new("shapes");
    let ranks = [0, 1].map(|rank| {
        start(&mut trainer(&format!(
            "{} --variable-seq-lengths 5,7 --pp 2 --world-size 2 --rank {rank} --timeout 30 --rendezvous-file {} \
             --flight-dir {} --inject-fault drop:rank=0,send=1",
            process::TINY,
            scratch.file("meeting").display(),
            scratch.file("flight").display()
        )))
    });
    let [_, second] = ranks.map(process::Running::wait);
    assert_ne!(second.code, Some(0), "{second:?}");
    assert!(second.stderr.contains("expected the shapes of the activation of microbatch 0"), "{second:?}");
}
