//! What cannot run over NCCL: every rank says why, none waits for another.

use std::time::{Duration, Instant};

use crate::process::{TINY, start, trainer};
use crate::runs::{Outcome, Run, Variable};

/// Nobody waits for what does not come.
const SOON: Duration = Duration::from_secs(20);

fn run(flags: &str, variables: &[Variable<'_>]) -> Outcome {
    let begin = Instant::now();
    let outcome = Run { n_ranks: 2, flags: &format!("--pp 2 --transport nccl {flags}"), variables }.start();
    assert!(begin.elapsed() < SOON, "{:?}: {outcome:#?}", begin.elapsed());
    assert_eq!(outcome.report, "", "{outcome:#?}");
    outcome
}

#[test]
fn more_ranks_than_gpus() {
    let outcome = run("", &[(None, "CUDA_EMULATOR_DEVICES", "1")]);
    for (rank, ended) in outcome.ended.iter().enumerate() {
        ended.failed(1, &[&format!("local rank {rank} of 2"), "shows 1 GPU", "at most 1 rank"]);
    }
    assert!(
        outcome.ended.iter().all(|ended| !ended.stdout.contains("configuration")),
        "nothing is said of what cannot be"
    );
}

#[test]
fn an_nccl_that_is_too_old() {
    let outcome = run("", &[(None, "CUDA_EMULATOR_NCCL_VERSION", "21403")]);
    for ended in &outcome.ended {
        ended.failed(1, &["NCCL 2.14.3 was found", "2.18.0 is needed"]);
    }
}

#[test]
fn a_rank_that_has_no_gpu_is_named_by_the_others() {
    for (failing, other) in [(1, 0), (0, 1)] {
        let old = [(Some(failing), "CUDA_EMULATOR_NCCL_VERSION", "21403")];
        let outcome = run("", &old);
        outcome.ended[failing as usize].failed(1, &["NCCL 2.14.3 was found"]);
        outcome.ended[other].failed(3, &[&format!("rank {failing} is lost: NCCL 2.14.3 was found")]);
    }
}

#[test]
fn a_rank_alone_in_failing_says_so_when_nobody_comes() {
    let mut command = trainer(&format!("{TINY} --pp 2 --transport nccl --timeout 1"));
    command.env("PP_RANK", "1").env("PP_WORLD_SIZE", "2").env("PP_RENDEZVOUS_FILE", "no-such-file");
    command.env("CUDA_EMULATOR_DEVICES", "1");
    start(&mut command).wait().failed(1, &["local rank 1 of 2", "shows 1 GPU"]);
}

#[test]
fn a_schedule_for_which_one_communicator_is_not_enough() {
    let outcome = run("--microbatches 4 --nccl-communicators one", &[]);
    for ended in &outcome.ended {
        ended.failed(2, &["--nccl-communicators one: ", "wait for each other", "add --policy megatron"]);
    }
}

#[test]
fn a_rank_that_is_killed_ends_the_others() {
    let outcome = run("--train-iters 50 --inject-fault kill:rank=1,step=3,action=4", &[]);
    assert_eq!(outcome.ended[1].code, None, "{outcome:#?}");
    let first = &outcome.ended[0];
    assert!(first.code == Some(3) && first.stderr.contains("rank 1 is lost"), "{outcome:#?}");
}

/// Without the emulator there is nothing on a machine without GPUs.
#[test]
fn a_machine_without_a_driver() {
    if std::path::Path::new("/dev/nvidiactl").exists() {
        return;
    }
    let mut command = trainer(&format!("{TINY} --transport nccl"));
    start(command.env_remove("LD_LIBRARY_PATH"))
        .wait()
        .failed(1, &["there is no GPU to use: no CUDA driver is present"]);
}
