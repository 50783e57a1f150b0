//! What a program does wrong is found out, and the report names the buffer and both places.

use std::time::{Duration, Instant};

use cuda_emulator::abi;
use cuda_emulator::driver;
use cuda_emulator::nccl::kinds::{Code, DataType, ReduceOp};

use crate::child::{self, Outcome};
use crate::lifecycle::wait_for_failure;
use crate::rank::{LIMIT, Rank, last_error};

const U8: DataType = DataType::U8;
const FAULTS: &str = "CUDA_EMULATOR_FAULTS";

/// Has what comes on one stream wait for what is on another.
fn after(stream: usize, before: usize) -> Result<(), driver::Error> {
    let event = driver::create_event(false)?;
    driver::record_event(event, before)?;
    // As C code calls it: there it can be asked to do nothing.
    // SAFETY: handles are only looked up.
    let waited = unsafe { abi::cuda::stream::cuStreamWaitEvent(stream as *mut _, event as *mut _, 0) };
    assert_eq!(waited, 0);
    driver::destroy_event(event)
}

/// A step of a pipeline: what one stream computes, another sends, in a group with what it receives; then it is computed on.
fn step(rank: &Rank) -> Result<(), String> {
    let compute = driver::create_stream(false).map_err(|error| error.to_string())?;
    let (out, into) = (rank.memory(&[0; 64]), rank.memory(&[0; 64]));
    rank.settle();
    let said = |error: driver::Error| error.to_string();
    driver::fill("fill by the test", out, &[rank.rank as u8], 64, compute).map_err(said)?;
    after(rank.stream, compute).map_err(said)?;
    let peer = 1 - rank.rank;
    rank.group(|| {
        let sent = rank.send(out, 64, U8, peer);
        sent.and_then(|()| rank.recv(into, 64, U8, peer))
    })
    .and_then(|called| called)
    .map_err(|code| format!("{code:?}: {}", last_error(rank.handle())))?;
    after(compute, rank.stream).map_err(said)?;
    driver::fill("overwrite by the test", out, &[9], 64, compute).map_err(said)?;
    let end = Instant::now() + LIMIT;
    while !driver::query_stream(compute).map_err(said)? {
        assert!(Instant::now() < end, "the step does not end");
        if ![Code::Success, Code::InProgress].contains(&crate::rank::status(rank.handle())) {
            return Err(last_error(rank.handle()));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let received = driver::copy_out("look by the test", into, 64, compute).map_err(said)?;
    assert_eq!(received, [peer as u8; 64]);
    driver::free(out).and_then(|()| driver::free(into)).map_err(said)
}

/// Runs a step over two processes; the one whose rank is in the faults may fail, and says why.
fn steps(test: &str, faults: &'static str) -> Option<Outcome> {
    let environment = |_| vec![(FAULTS, faults), ("CUDA_EMULATOR_STUCK_S", "0.5")];
    child::run(test, 2, environment, |id, number| {
        let rank = Rank::join(id, 2, number);
        match step(&rank) {
            Ok(()) => {
                rank.leave();
                println!("step: fine");
            }
            Err(why) => {
                println!("step: {why}");
                rank.abort();
            }
        }
    })
}

#[test]
fn a_program_that_is_right_is_not_reported() {
    let Some(outcome) = steps("detection::a_program_that_is_right_is_not_reported", "") else { return };
    outcome.is_clean();
    assert!(outcome.printed.iter().all(|printed| printed.contains("step: fine")), "{outcome:#?}");
}

/// One report of a race that names both pieces of work, and the calls fail.
fn is_race(outcome: &Outcome, one: &str, other: &str) {
    let races = outcome.violations("race");
    let names = |block: &&&str| block.contains(one) && block.contains(other);
    let Some(block) = races.iter().find(names) else { panic!("no race of {one} and {other}: {outcome:#?}") };
    assert!(block.contains("64 bytes"), "it says which memory: {block}");
    let (before, after) = block.split_once("later queued:").unwrap();
    let (buffer, before) = before.split_once("first queued:").unwrap();
    for (part, what) in [(buffer, "allocated by"), (before, ""), (after, "")] {
        assert!(part.contains(what) && part.contains("detection.rs"), "it says all three places: {block}");
    }
    assert!(outcome.printed.iter().any(|printed| printed.contains("step: ") && !printed.contains("step: fine")));
}

#[test]
fn a_wait_that_is_missing_is_found() {
    for (number, one, other) in [("1", "fill by the test", "ncclSend"), ("2", "ncclSend", "overwrite by the test")] {
        let faults = if number == "1" { "skip-event-wait=1" } else { "skip-event-wait=2" };
        let Some(outcome) = steps("detection::a_wait_that_is_missing_is_found", faults) else { return };
        is_race(&outcome, one, other);
    }
}

#[test]
fn an_operation_on_the_wrong_stream_is_found() {
    let Some(outcome) = steps("detection::an_operation_on_the_wrong_stream_is_found", "wrong-stream=1:rank=0") else {
        return;
    };
    is_race(&outcome, "fill by the test", "ncclSend");
}

#[test]
fn memory_freed_too_early_is_found() {
    let Some(outcome) = steps("detection::memory_freed_too_early_is_found", "early-free=1:rank=1") else { return };
    is_race(&outcome, "cuMemFreeAsync", "ncclSend");
}

#[test]
fn a_group_that_is_taken_apart_is_stuck_and_it_is_said_for_what() {
    let name = "detection::a_group_that_is_taken_apart_is_stuck_and_it_is_said_for_what";
    let Some(outcome) = steps(name, "split-group=1") else { return };
    let stuck = outcome.violations("stuck");
    assert!(!stuck.is_empty(), "{outcome:#?}");
    for says in ["rank 0 waits for: ncclSend of 64 u8 to rank 1", "rank 1 waits for: ncclSend of 64 u8 to rank 0"] {
        assert!(stuck.iter().any(|block| block.contains(says)), "{says}: {outcome:#?}");
    }
    assert!(outcome.printed.iter().all(|printed| !printed.contains("step: fine")), "{outcome:#?}");
}

/// Two ranks do different things; both must hear of it, and the report tells both sides.
fn mismatch(test: &str, different: fn(&Rank, u64), sides: [&str; 2]) {
    let outcome = child::run(
        test,
        2,
        |_| Vec::new(),
        |id, number| {
            let rank = Rank::join(id, 2, number);
            let memory = rank.memory(&[0; 64]);
            rank.settle();
            different(&rank, memory);
            assert_eq!(wait_for_failure(rank.handle()), Code::InvalidUsage);
            assert!(last_error(rank.handle()).contains("do not agree"));
            let end = Instant::now() + LIMIT;
            while driver::query_stream(rank.stream).is_ok() {
                assert!(Instant::now() < end, "the context fails too");
                std::thread::sleep(Duration::from_millis(1));
            }
            rank.abort();
        },
    );
    let Some(outcome) = outcome else { return };
    (0..2).for_each(|rank| outcome.passed(rank));
    let reported = outcome.violations("mismatch");
    assert_eq!(reported.len(), 2, "{outcome:#?}");
    for block in reported {
        assert!(sides.iter().all(|side| block.contains(side)), "{block}");
        assert!(block.contains("rank 0 of 2") && block.contains("rank 1 of 2"), "{block}");
    }
}

#[test]
fn a_short_receive_is_reported() {
    let different = |rank: &Rank, memory| {
        let _ = if rank.rank == 0 { rank.send(memory, 8, U8, 1) } else { rank.recv(memory, 4, U8, 0) };
    };
    mismatch("detection::a_short_receive_is_reported", different, ["ncclSend of 8 u8", "ncclRecv of 4 u8"]);
}

#[test]
fn a_long_receive_is_reported() {
    let different = |rank: &Rank, memory| {
        let _ = if rank.rank == 0 { rank.send(memory, 4, U8, 1) } else { rank.recv(memory, 8, U8, 0) };
    };
    mismatch("detection::a_long_receive_is_reported", different, ["ncclSend of 4 u8", "ncclRecv of 8 u8"]);
}

#[test]
fn a_receive_of_another_type_is_reported() {
    // As many bytes, as other elements.
    let different = |rank: &Rank, memory| {
        let _ = if rank.rank == 0 {
            rank.send(memory, 4, DataType::F32, 1)
        } else {
            rank.recv(memory, 8, DataType::Bf16, 0)
        };
    };
    mismatch(
        "detection::a_receive_of_another_type_is_reported",
        different,
        ["ncclSend of 4 f32", "ncclRecv of 8 bf16"],
    );
}

#[test]
fn collectives_that_differ_are_reported() {
    let different = |rank: &Rank, memory| {
        let op = [ReduceOp::Sum, ReduceOp::Max][rank.rank];
        let _ = rank.all_reduce(memory, memory, 4, DataType::F32, op);
    };
    let sides = ["ncclAllReduce of 4 f32 (sum)", "ncclAllReduce of 4 f32 (maximum)"];
    mismatch("detection::collectives_that_differ_are_reported", different, sides);
}

#[test]
fn operations_of_one_group_on_the_same_memory_are_reported() {
    let name = "detection::operations_of_one_group_on_the_same_memory_are_reported";
    let outcome = child::run(
        name,
        1,
        |_| Vec::new(),
        |id, _| {
            let rank = Rank::join(id, 1, 0);
            let memory = rank.memory(&[1; 64]);
            let grouped = rank.group(|| {
                rank.send(memory, 40, U8, 0).unwrap();
                rank.recv(memory + 24, 40, U8, 0).unwrap();
            });
            assert_eq!(grouped, Err(Code::InvalidUsage));
            rank.abort();
        },
    );
    let Some(outcome) = outcome else { return };
    outcome.passed(0);
    let reported = outcome.violations("overlap");
    assert_eq!(reported.len(), 1, "{outcome:#?}");
    assert!(reported[0].contains("ncclSend of 40 u8") && reported[0].contains("ncclRecv of 40 u8"), "{}", reported[0]);
}
