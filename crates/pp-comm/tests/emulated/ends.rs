//! The harness itself: what goes wrong in a rank's process shows, and no process is left.

use std::time::Duration;

use pp_comm::CommError;
use pp_schedule::Rank;
use rustix::process::{Signal, getpid, kill_process};

use crate::common::{Kind, PATIENCE};
use crate::harness::{Run, Seat};
use crate::ranks::End;

/// Whether a process is there.
fn is_there(pid: i32) -> bool {
    std::path::Path::new(&format!("/proc/{pid}")).exists()
}

/// Another thread may be the one that takes the signal: this one must not go on meanwhile.
fn signal_self(signal: Signal) {
    kill_process(getpid(), signal).expect("it runs");
    std::thread::sleep(PATIENCE);
}

#[test]
fn what_ranks_give_comes_in_their_order_and_their_processes_are_gone() {
    let pids = Run::new(Kind::Socket, 3, &[]).all(|Seat { member, .. }| {
        let rank = member.endpoint.rank().0;
        member.close();
        (rank, getpid().as_raw_nonzero().get())
    });
    assert_eq!(pids.iter().map(|&(rank, _)| rank).collect::<Vec<_>>(), [0, 1, 2]);
    assert!(pids.iter().all(|&(_, pid)| !is_there(pid)));
}

#[test]
fn a_rank_that_panics_is_killed_or_stops_ends_so() {
    for odd in 0..2 {
        let end = |what: u32| {
            let heartbeat = Duration::from_secs(1);
            Run { heartbeat, ..Run::new(Kind::Socket, 2, &[]) }.within(
                |joined| {
                    let mut member = joined.member;
                    if member.endpoint.rank() == Rank(odd) {
                        match what {
                            0 => panic!("on purpose"),
                            1 => signal_self(Signal::KILL),
                            _ => signal_self(Signal::STOP),
                        }
                    }
                    // The other one learns of it; of one that is stopped only when it has been silent for long.
                    let lost = member.control.barrier().expect_err("one is missing");
                    matches!(lost, CommError::PeerLost { rank, .. } if rank == Rank(odd))
                },
                |outcome| {
                    let ends = &outcome.ended.ends;
                    assert_eq!(ends[1 - odd as usize], End::Said("true".to_owned()), "{}", outcome.ended.words);
                    if what == 0 {
                        assert!(outcome.ended.words.contains("on purpose"), "{}", outcome.ended.words);
                    }
                    format!("{:?}", ends[odd as usize])
                },
            )
        };
        let (panics, killed, stopped) = (end(0), end(1), end(2));
        assert!(panics.contains("Died") && killed.contains("Died"), "{panics}, {killed}");
        assert_eq!(stopped, "Frozen");
    }
}

/// A process that does not end in time is ended, and its test fails with what it said.
#[test]
fn a_rank_that_does_not_end_is_ended() {
    let run = Run { limit: Duration::from_secs(2), ..Run::new(Kind::Socket, 1, &[]) };
    let stuck = std::panic::AssertUnwindSafe(|| {
        run.within(
            |_| {
                println!("it is process {}.", getpid().as_raw_nonzero());
                std::thread::sleep(Duration::from_secs(600));
            },
            |_| (),
        );
    });
    let panic = std::panic::catch_unwind(stuck).expect_err("it does not end");
    let text = panic.downcast_ref::<String>().expect("a text");
    let pid = text.split_once("it is process ").and_then(|(_, rest)| rest.split_once('.')).expect("what it said").0;
    assert!(!is_there(pid.parse().expect("a number")), "{text}");
}
