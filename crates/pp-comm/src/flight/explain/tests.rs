//! Records of which one is missing: the failure is told by what the others were told, or not at all.

use std::time::Duration;

use pp_schedule::{Carries, Channel, Direction, Message, Microbatch, Rank, Role, Stage};

use super::{Explanation, Verdict, explain};
use crate::error::{CommError, Operation};
use crate::flight::{Cause, RankEnd, RankRecord, Recorder, Records, Report, State, Subject};
use crate::message::{Boundary, DType, Envelope, Label};

const fn label(microbatch: u32) -> Label {
    let message = Message { direction: Direction::Backward, stage: Stage(0), microbatch: Microbatch(microbatch) };
    Label::Tensor { envelope: Envelope { step: 1, message }, part: 0 }
}

const CHANNEL: Channel =
    Channel { source: Rank(1), destination: Rank(0), carries: Carries::Only(Direction::Backward), queue: 1 };

const fn transfer(role: Role, microbatch: u32) -> Operation {
    Operation { role, channel: CHANNEL, label: label(microbatch) }
}

/// The record of a rank of two that has done this at action 5, and failed by that.
fn record(rank: u32, did: &[(Role, u32, State)], error: &CommError) -> RankRecord {
    let recorder = Recorder::new(Rank(rank)).of_run(Some(7), 2);
    recorder.at_action(Some(5));
    for &(role, microbatch, state) in did {
        recorder.note(Subject::Transfer(transfer(role, microbatch)), state, 8);
    }
    RankRecord::new(&recorder, Report { why: error.to_string(), cause: Cause::of(error), heard: Vec::new() })
}

/// What is found when rank 0 failed by an error of its own, rank 1 had sent these messages, and only rank 1 has left a
/// record.
fn without_rank_0(error: &CommError, sent: &[u32]) -> Explanation {
    let lost = CommError::PeerLost { rank: Rank(0), reason: error.to_string() };
    let did: Vec<_> =
        sent.iter().flat_map(|&m| [State::Posted, State::Done].map(|state| (Role::Send, m, state))).collect();
    explain(&Records::new([record(1, &did, &lost)]))
}

fn late() -> CommError {
    CommError::Deadline { operation: transfer(Role::Receive, 4), limit: Duration::from_secs(3) }
}

#[test]
fn the_sender_is_named_by_what_the_victim_told_it() {
    let boundary = |shape: &[usize]| Boundary::new(DType::F32, shape).expect("small");
    let shape = CommError::WrongBoundary {
        channel: CHANNEL,
        label: label(4),
        expected: boundary(&[4, 16]),
        found: boundary(&[4, 15]),
    };
    let skipped = CommError::WrongMessage { channel: CHANNEL, expected: label(4), found: label(5) };
    let twice = CommError::WrongMessage { channel: CHANNEL, expected: label(5), found: label(4) };
    let cases =
        [(shape, Verdict::WrongShape), (skipped, Verdict::Lost), (twice, Verdict::Duplicated), (late(), Verdict::Lost)];
    for (error, verdict) in cases {
        let found = without_rank_0(&error, &[4, 5]);
        assert_eq!((found.verdict, found.rank, found.action), (verdict, Some(1), Some(5)), "{found}");
        let text = found.to_string();
        assert!(text.contains("rank 0 left no record") && text.contains("rank 0 told the others"), "{text}");
        assert!(!text.contains("killed"), "{text}");
    }
}

#[test]
fn a_slow_rank_is_named_by_what_was_told_of_the_one_that_waited() {
    let found = without_rank_0(&late(), &[3]);
    assert_eq!((found.verdict, found.rank), (Verdict::Slow, Some(1)), "{found}");
    assert!(found.evidence.iter().any(|line| line.starts_with("rank 0 was blocked 3.00 s on the receive")), "{found}");
}

/// Rank 0 waited for rank 1, of which there is no record.
fn without_rank_1(ends: Vec<RankEnd>, is_unreadable: bool) -> Explanation {
    let records =
        Records::new([record(0, &[(Role::Receive, 4, State::Begun), (Role::Receive, 4, State::Failed)], &late())]);
    let unreadable = is_unreadable.then_some(1).into_iter().collect();
    explain(&Records { ends, unreadable, ..records })
}

#[test]
fn a_rank_whose_record_is_missing_is_not_said_to_be_killed() {
    let end = |code, stopped| vec![RankEnd { rank: 1, killed_by: None, code, stopped }];
    for (ends, is_unreadable, said) in [
        (end(Some(3), false), false, "its record is missing, though it ended by itself with exit code 3"),
        (end(None, false), false, "its record is missing, though it was not killed"),
        (end(None, true), true, "its record cannot be read"),
        (Vec::new(), false, "it was killed, stood still, or its record is elsewhere"),
    ] {
        let found = without_rank_1(ends, is_unreadable);
        assert!(!found.is_known() && found.rank.is_none(), "{found}");
        assert!(found.summary.contains("rank 1") && found.summary.contains(said), "{found}");
        assert!(found.to_string().contains("rank 0 was blocked"), "{found}");
    }
    let stopped = without_rank_1(end(None, true), false);
    assert_eq!((stopped.verdict, stopped.rank), (Verdict::Gone, Some(1)), "{stopped}");
}

#[test]
fn a_connection_that_ends_without_a_word_is_a_kill_unless_the_process_was_seen_to_end_otherwise() {
    let lost = CommError::PeerLost { rank: Rank(1), reason: "it closed the connection".to_owned() };
    let records = |ends| Records { ends, ..Records::new([record(0, &[], &lost)]) };
    let found = explain(&records(Vec::new()));
    assert_eq!((found.verdict, found.rank), (Verdict::Killed, Some(1)), "{found}");
    let ended = explain(&records(vec![RankEnd { rank: 1, killed_by: None, code: Some(1), stopped: false }]));
    assert!(!ended.is_known() && ended.to_string().contains("rank 1"), "{ended}");
    assert!(!ended.to_string().contains("was killed"), "{ended}");
}
