//! What messages go through does not show in what is trained.

use crate::runs::{Outcome, Run};

fn run(n_ranks: u32, flags: &str, carrier: &str) -> Outcome {
    Run { n_ranks, flags: &format!("--pp {n_ranks} {flags} --transport {carrier}"), variables: &[] }.start().well()
}

/// Over NCCL and over sockets.
fn same(n_ranks: u32, flags: &str, way: &str) {
    let over_sockets = run(n_ranks, flags, "socket");
    let over_nccl = run(n_ranks, flags, &format!("nccl {way}"));
    assert_eq!(over_nccl.bits(), over_sockets.bits(), "--pp {n_ranks} {flags} {way}");
    assert_eq!(over_sockets.metrics.len(), 4, "two steps, a validation, and the last line");
    let last = |outcome: &Outcome| outcome.metrics.last().map(|line| line["nccl"].clone());
    assert_eq!((last(&over_nccl), last(&over_sockets)), (Some("2.30.4".into()), Some(serde_json::Value::Null)));
    let told = &over_nccl.ended[0].stdout;
    for rank in 0..n_ranks {
        assert!(told.contains(&format!("rank {rank}: GPU {rank} of 8, NCCL 2.30.4\n")), "{told}");
    }
    assert!(told.contains(" over nccl"), "{told}");
}

#[test]
fn the_interleaved_schedule() {
    same(2, "--vp 2 --num-layers 4 --microbatches 4", "");
}

#[test]
fn one_after_the_other_with_few_blocks() {
    same(3, "--num-layers 3 --microbatches 4", "--nccl-max-ctas 2");
}

#[test]
fn both_directions_at_once() {
    same(2, "--schedule zb-v --num-layers 4 --microbatches 4", "");
}

#[test]
fn four_ranks_with_two_chunks_each() {
    same(4, "--vp 2 --num-layers 8 --microbatches 4", "");
}

#[test]
fn exchanges_as_megatron_has_them() {
    same(4, "--num-layers 4 --microbatches 4 --policy megatron", "");
}

#[test]
fn microbatches_of_several_lengths() {
    same(2, "--variable-seq-lengths 5,16", "");
}

#[test]
fn brain_floats() {
    same(2, "--bf16 --vp 2 --num-layers 4 --microbatches 4", "");
}

#[test]
fn one_communicator_for_all_channels() {
    same(2, "--microbatches 4 --policy megatron", "--nccl-communicators one");
}
