//! Faults on request, each over processes: what the others see of it, and when.

use std::time::{Duration, Instant};

use cuda_emulator::abi::nccl::{self, Config};
use cuda_emulator::nccl::kinds::{Code, DataType};

use crate::child;
use crate::lifecycle::wait_for_failure;
use crate::rank::{Rank, last_error, result, status};

const U8: DataType = DataType::U8;
const FAULTS: &str = "CUDA_EMULATOR_FAULTS";

/// Rank 0 sends to rank 1 so many messages, one after the other.
fn messages(rank: &Rank, n_messages: usize) {
    let memory = rank.memory(&[1]);
    for _ in 0..n_messages {
        // What fails is looked at after.
        let _ = if rank.rank == 0 { rank.send(memory, 1, U8, 1) } else { rank.recv(memory, 1, U8, 0) };
    }
}

/// The one rank sees the other's death, at the operation that needs it or not; then it can go on after an abort.
fn sees_the_death(rank: &Rank) {
    assert_eq!(wait_for_failure(rank.handle()), Code::RemoteError);
    assert!(last_error(rank.handle()).contains("is gone"), "{}", last_error(rank.handle()));
    rank.abort();
    rank.settle();
}

#[test]
fn a_rank_that_dies_is_noticed_at_once() {
    let environment = |rank| if rank == 1 { vec![(FAULTS, "die=3")] } else { Vec::new() };
    let outcome = child::run("faults::a_rank_that_dies_is_noticed_at_once", 2, environment, |id, number| {
        let rank = Rank::join(id, 2, number);
        messages(&rank, 5);
        sees_the_death(&rank);
    });
    let Some(outcome) = outcome else { return };
    outcome.passed(0);
    assert!(!outcome.statuses[1].success() && outcome.printed[1].contains("dies before ncclRecv"), "{outcome:#?}");
    assert!(outcome.printed[1].contains("(operation 3)"), "{outcome:#?}");
    assert!(outcome.took < Duration::from_secs(5), "{outcome:#?}");
}

#[test]
fn a_silent_death_is_not_noticed() {
    let environment = |rank| vec![(FAULTS, if rank == 1 { "die=1" } else { "silent-death" })];
    let outcome = child::run("faults::a_silent_death_is_not_noticed", 2, environment, |id, number| {
        let rank = Rank::join(id, 2, number);
        messages(&rank, 1);
        std::thread::sleep(Duration::from_millis(500));
        assert_eq!(status(rank.handle()), Code::Success);
        rank.abort();
        rank.settle();
    });
    if let Some(outcome) = outcome {
        outcome.passed(0);
        assert!(!outcome.statuses[1].success(), "{outcome:#?}");
    }
}

#[test]
fn an_error_is_asynchronous_and_what_runs_hangs_until_it_is_aborted() {
    let environment = |_| vec![(FAULTS, "async-error=2:rank=0:code=3")];
    let name = "faults::an_error_is_asynchronous_and_what_runs_hangs_until_it_is_aborted";
    let outcome = child::run(name, 2, environment, |id, number| {
        let rank = Rank::join(id, 2, number);
        messages(&rank, 2);
        if number == 0 {
            assert_eq!(wait_for_failure(rank.handle()), Code::InternalError);
            assert!(last_error(rank.handle()).contains("fault: asked for before ncclSend"));
            let memory = rank.memory(&[1]);
            assert_eq!(rank.send(memory, 1, U8, 1), Err(Code::InternalError), "it stays");
            assert!(!cuda_emulator::driver::query_stream(rank.stream).unwrap());
            rank.abort();
            rank.settle();
        } else {
            sees_the_death(&rank);
        }
    });
    if let Some(outcome) = outcome {
        outcome.is_clean();
    }
}

#[test]
fn a_slow_rank_is_slow() {
    let environment = |_| vec![(FAULTS, "slow=40:rank=1")];
    let outcome = child::run("faults::a_slow_rank_is_slow", 2, environment, |id, number| {
        let rank = Rank::join(id, 2, number);
        let begun = Instant::now();
        messages(&rank, 5);
        rank.settle();
        assert!(begun.elapsed() >= Duration::from_millis(200));
        rank.leave();
    });
    if let Some(outcome) = outcome {
        outcome.is_clean();
    }
}

#[test]
fn a_version_is_what_is_asked_for() {
    let version = || {
        let mut version = 0;
        // SAFETY: `version` may be written.
        result(unsafe { nccl::ncclGetVersion(&mut version) }).unwrap();
        version
    };
    let environment = |rank| match rank {
        0 => vec![(FAULTS, "version=21000"), ("CUDA_EMULATOR_NCCL_VERSION", "22907")],
        _ => vec![("CUDA_EMULATOR_NCCL_VERSION", "22907")],
    };
    let outcome = child::run("faults::a_version_is_what_is_asked_for", 2, environment, |_, number| {
        assert_eq!(version(), [21_000, 22_907][number]);
    });
    if let Some(outcome) = outcome {
        outcome.is_clean();
    }
}

#[test]
fn a_communicator_that_is_never_made_can_be_given_up() {
    let environment = |rank| if rank == 1 { vec![(FAULTS, "init-never")] } else { Vec::new() };
    let name = "faults::a_communicator_that_is_never_made_can_be_given_up";
    let outcome = child::run(name, 2, environment, |id, number| {
        let rank = Rank::begin(id, 2, number, Config { blocking: 0, ..Config::unset() });
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(status(rank.handle()), Code::InProgress);
        rank.abort();
    });
    if let Some(outcome) = outcome {
        outcome.is_clean();
    }
}

#[test]
fn a_word_that_is_not_known_is_an_error_at_the_first_call() {
    let name = "faults::a_word_that_is_not_known_is_an_error_at_the_first_call";
    let outcome = child::run(
        name,
        1,
        |_| vec![(FAULTS, "dye=1")],
        |_, _| {
            let mut version = 0;
            // SAFETY: `version` may be written.
            let asked = unsafe { nccl::ncclGetVersion(&mut version) };
            assert_eq!(result(asked), Err(Code::InvalidUsage));
            assert!(last_error(std::ptr::null_mut()).contains("there is no fault \"dye\""));
        },
    );
    if let Some(outcome) = outcome {
        outcome.is_clean();
    }
}
