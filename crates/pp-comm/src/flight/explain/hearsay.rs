//! What others were told of a rank whose own record is missing or cannot be read: a rank that fails says why, and the others
//! keep its words. Read back into parts, they stand in for its record.

use std::collections::BTreeMap;

use crate::collective::Collective;
use crate::flight::cause::{BoundaryPart, Cause};
use crate::flight::parts::{ChannelPart, LabelPart, RoleName, StateName, SubjectPart, Way};
use crate::flight::read::Records;
use crate::flight::record::{EventRecord, FORMAT, RankRecord};

/// How a rank's loss showed.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Word {
    /// It gave no sign of life.
    Frozen,
    /// Its connections ended, and it had said nothing.
    Cut,
    /// It said why, in parts where they can be told.
    Said(Option<Cause>),
}

/// What a reason for a loss says of the rank that is lost.
pub(super) fn word(reason: &str, records: &Records) -> Word {
    // Where another rank told of it.
    let reason = match reason.strip_prefix("rank ").and_then(|rest| rest.split_once(" says: ")) {
        Some((rank, said)) if rank.parse::<u32>().is_ok() => said,
        _ => reason,
    };
    if reason.contains("no heartbeat") {
        return Word::Frozen;
    }
    let cuts = ["it closed the connection", "it closed its connection", "the connection failed: ", "its connection "];
    // The host's end of a connection is that of the process beside it.
    let of_process = reason.strip_prefix("the host beside it: ").unwrap_or(reason);
    if cuts.iter().any(|cut| of_process.starts_with(cut)) {
        return Word::Cut;
    }
    Word::Said(cause(reason, records))
}

/// Records in the place of those that are missing, by what the others were told.
pub(super) fn stand_ins(records: &Records) -> BTreeMap<u32, RankRecord> {
    let mut stand_ins = BTreeMap::new();
    for record in records.ranks.values() {
        let Cause::Lost { rank, reason } = &record.cause else { continue };
        if records.ranks.contains_key(rank) || *rank >= records.world || stand_ins.contains_key(rank) {
            continue;
        }
        if let Word::Said(Some(cause)) = word(reason, records) {
            stand_ins.insert(*rank, stand_in(*rank, cause, reason, record));
        }
    }
    stand_ins
}

fn stand_in(rank: u32, cause: Cause, reason: &str, told: &RankRecord) -> RankRecord {
    let within = match &cause {
        Cause::TransferDeadline { transfer, limit_s } => vec![wait(transfer, *limit_s)],
        Cause::CollectiveDeadline { collective, round, limit_s, .. } => {
            vec![wait(&SubjectPart::Collective { collective: *collective, group: None, round: *round }, *limit_s)]
        }
        _ => Vec::new(),
    };
    RankRecord {
        format: FORMAT,
        run: told.run.clone(),
        rank,
        world: told.world,
        why: reason.to_owned(),
        cause,
        at: told.at,
        action: None,
        quiet_seconds: None,
        within,
        // Whatever it did is not known.
        n_forgotten: 1,
        events: Vec::new(),
        heard: Vec::new(),
    }
}

fn wait(subject: &SubjectPart, limit_s: f64) -> EventRecord {
    EventRecord {
        step: subject.step(),
        action: None,
        text: subject.to_string(),
        peer: subject.peer(),
        subject: subject.clone(),
        bytes: 0,
        state: StateName::Failed,
        seconds_before: limit_s,
        monotonic_us: 0,
    }
}

/// The cause in the words of [`CommError`](crate::CommError); none for a wait whose words do not tell what for.
fn cause(reason: &str, records: &Records) -> Option<Cause> {
    if let Some((what, rest)) = reason.split_once(" did not complete within ") {
        return deadline(what, rest, records);
    }
    let known = of_channel(reason, records);
    Some(known.unwrap_or_else(|| Cause::Own { reason: reason.to_owned() }))
}

/// `the receive from rank 1 of L` or `all-gather 4`, and `3s`, maybe with who was missing.
fn deadline(what: &str, rest: &str, records: &Records) -> Option<Cause> {
    let (limit, missing) = rest.split_once(": ").unwrap_or((rest, ""));
    let limit_s = seconds(limit)?;
    if let Some((name, round)) = what.rsplit_once(' ')
        && let (Some(collective), Ok(round)) = (collective(name), round.parse())
    {
        let list = missing.trim_start_matches("ranks ").trim_start_matches("rank ");
        let list = list.split_once(" did").map_or(list, |(list, _)| list);
        let missing = list.split(", ").filter_map(|rank| rank.parse().ok()).collect();
        return Some(Cause::CollectiveDeadline { collective, round, missing, limit_s });
    }
    // The rank at this end is whichever the message goes to or comes from there; the records know the channel.
    let (role, rest) = match what.strip_prefix("the receive from rank ") {
        Some(rest) => (RoleName::Receive, rest),
        None => (RoleName::Send, what.strip_prefix("the send to rank ")?),
    };
    let (peer, label) = rest.split_once(" of ")?;
    let (peer, label): (u32, _) = (peer.parse().ok()?, label_of(label)?);
    let channel = channel_of(records, label, |channel| match role {
        RoleName::Receive => channel.source == peer,
        RoleName::Send => channel.destination == peer,
    })?;
    Some(Cause::TransferDeadline { transfer: SubjectPart::Transfer { role, channel, label }, limit_s })
}

/// `backward channel from rank 1 to rank 0: ...`
fn of_channel(reason: &str, records: &Records) -> Option<Cause> {
    let (name, rest) = reason.split_once(": ")?;
    let (carries, ends) = name.split_once(" from rank ")?;
    let carries = match carries {
        "forward channel" => Way::Forward,
        "backward channel" => Way::Backward,
        "channel for both directions" => Way::Both,
        _ => return None,
    };
    let (source, destination) = ends.split_once(" to rank ")?;
    let (source, destination): (u32, u32) = (source.parse().ok()?, destination.parse().ok()?);
    let ends = |channel: &ChannelPart| {
        (channel.source, channel.destination, channel.carries) == (source, destination, carries)
    };
    // Its place in the queues is not said; where no record has it, nothing was kept of its messages either.
    let channel = |label| {
        let unknown = ChannelPart { source, destination, carries, queue: 0 };
        channel_of(records, label, ends).unwrap_or(unknown)
    };
    if let Some((label, rest)) = rest.split_once(" was agreed to be ")
        && let Some((expected, found)) = rest.strip_suffix(" was sent")?.split_once(", but ")
    {
        let label = label_of(label)?;
        let (expected, found) = (boundary_of(expected)?, boundary_of(found)?);
        return Some(Cause::WrongBoundary { channel: channel(label), label, expected, found });
    }
    if let Some((expected, found)) = rest.strip_prefix("expected ").and_then(|rest| rest.split_once(", but ")) {
        let (expected, found) = (label_of(expected)?, label_of(found.strip_suffix(" arrived")?)?);
        return Some(Cause::WrongMessage { channel: channel(found), expected, found });
    }
    let channel = ChannelPart { source, destination, carries, queue: 0 };
    Some(Cause::Malformed { channel, reason: rest.to_owned() })
}

/// The channel that a message goes over, by the records: that of this message, else of another that goes the same way.
fn channel_of(records: &Records, label: LabelPart, is_it: impl Fn(&ChannelPart) -> bool) -> Option<ChannelPart> {
    let transfers = || {
        let events = records.ranks.values().flat_map(|record| record.events.iter().rev());
        events.filter_map(|event| match event.subject {
            SubjectPart::Transfer { channel, label, .. } if is_it(&channel) => Some((channel, label)),
            _ => None,
        })
    };
    let of_it = transfers().find(|(_, other)| *other == label);
    let way = way_of(label);
    of_it.or_else(|| transfers().find(|(_, other)| way_of(*other) == way)).map(|(channel, _)| channel)
}

/// What the messages of a channel have in common: the stage and the direction, or the group.
const fn way_of(label: LabelPart) -> (Option<Way>, u32) {
    match label {
        LabelPart::Tensor { direction, stage, .. } | LabelPart::Shapes { direction, stage, .. } => {
            (Some(direction), stage)
        }
        LabelPart::Piece { group, .. } => (None, group),
    }
}

/// A label in the words of [`Label`](crate::message::Label).
fn label_of(text: &str) -> Option<LabelPart> {
    if let Some(rest) = text.strip_prefix("piece ") {
        let (piece, rest) = rest.split_once(" of ")?;
        let (what, group) = rest.split_once(" of group ")?;
        let (name, round) = what.rsplit_once(' ')?;
        let (collective, round) = (collective(name)?, round.parse().ok()?);
        return Some(LabelPart::Piece { collective, group: group.parse().ok()?, round, piece: piece.parse().ok()? });
    }
    let (part, text) = match text.strip_prefix("tensor ") {
        Some(rest) => rest.split_once(" of ").and_then(|(part, rest)| Some((part.parse().ok()?, rest)))?,
        None => (0, text),
    };
    let shapes = text.strip_prefix("the shapes of ");
    let rest = shapes.unwrap_or(text).strip_prefix("the ")?;
    let (direction, rest) = match rest.split_once(" of microbatch ")? {
        ("activation", rest) => (Way::Forward, rest),
        ("gradient", rest) => (Way::Backward, rest),
        _ => return None,
    };
    let (microbatch, rest) = rest.split_once(" for stage ")?;
    let (stage, step) = rest.split_once(" of step ")?;
    let (microbatch, stage, step) = (microbatch.parse().ok()?, stage.parse().ok()?, step.parse().ok()?);
    Some(match shapes {
        Some(_) => LabelPart::Shapes { step, direction, stage, microbatch },
        None => LabelPart::Tensor { step, direction, stage, microbatch, part },
    })
}

/// `f32 [4, 16]`
fn boundary_of(text: &str) -> Option<BoundaryPart> {
    let (dtype, shape) = text.split_once(" [")?;
    let shape = shape.strip_suffix(']')?;
    let dims = shape.split(", ").filter(|dim| !dim.is_empty()).map(str::parse);
    Some(BoundaryPart { dtype: dtype.to_owned(), shape: dims.collect::<Result<_, _>>().ok()? })
}

fn collective(name: &str) -> Option<Collective> {
    serde_json::from_value(serde_json::Value::String(name.to_owned())).ok()
}

/// `3s`, `700ms`, `1.5s`
fn seconds(text: &str) -> Option<f64> {
    let units = [("ns", 1e-9), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0)];
    units.iter().find_map(|(unit, factor)| Some(text.strip_suffix(unit)?.parse::<f64>().ok()? * factor))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pp_schedule::{Carries, Channel, Direction, Message, Microbatch, Rank, Role, Stage};

    use super::*;
    use crate::error::{CommError, Operation};
    use crate::flight::{Recorder, Report, State, Subject};
    use crate::message::{Boundary, DType, Envelope, Label};

    const CHANNEL: Channel =
        Channel { source: Rank(1), destination: Rank(0), carries: Carries::Only(Direction::Backward), queue: 4 };

    fn label(part: u16) -> Label {
        let message = Message { direction: Direction::Backward, stage: Stage(0), microbatch: Microbatch(7) };
        Label::Tensor { envelope: Envelope { step: 3, message }, part }
    }

    /// Records of a rank 1 that has sent something over the channel.
    fn records() -> Records {
        let recorder = Recorder::new(Rank(1));
        recorder.note(
            Subject::Transfer(Operation { role: Role::Send, channel: CHANNEL, label: label(0) }),
            State::Posted,
            8,
        );
        let cause = Cause::Own { reason: String::new() };
        Records::new([RankRecord::new(&recorder, Report { why: String::new(), cause, heard: Vec::new() })])
    }

    #[test]
    fn what_a_rank_said_of_its_failure_is_read_back_whole() {
        let boundary = |dtype, shape: &[usize]| Boundary::new(dtype, shape).expect("small");
        let Label::Tensor { envelope, .. } = label(0) else { panic!("a tensor") };
        let piece = Label::Piece { collective: Collective::ReduceScatter, group: 0, round: 5, piece: 2 };
        let wrong = |expected, found| CommError::WrongMessage { channel: CHANNEL, expected, found };
        let shape = |dtype, shape: &[usize]| CommError::WrongBoundary {
            channel: CHANNEL,
            label: label(1),
            expected: boundary(DType::F32, &[4, 16]),
            found: boundary(dtype, shape),
        };
        let late = |limit| CommError::Deadline {
            operation: Operation { role: Role::Receive, channel: CHANNEL, label: label(0) },
            limit,
        };
        let missing = |ranks: &[u32]| CommError::CollectiveDeadline {
            collective: Collective::AllGather,
            round: 4,
            missing: ranks.iter().copied().map(Rank).collect(),
            limit: Duration::from_secs(3),
        };
        let errors = [
            wrong(label(0), label(2)),
            wrong(Label::Shapes(envelope), label(0)),
            wrong(piece, label(0)),
            shape(DType::F32, &[4, 15]),
            shape(DType::I64, &[]),
            late(Duration::from_secs(3)),
            late(Duration::from_millis(1500)),
            missing(&[2]),
            missing(&[1, 2]),
        ];
        for error in errors {
            for reason in [error.to_string(), format!("rank 3 says: {error}")] {
                assert_eq!(word(&reason, &records()), Word::Said(Some(Cause::of(&error))), "{reason}");
            }
        }
    }

    #[test]
    fn a_connection_that_ended_is_no_word_of_the_rank_itself() {
        for reason in [
            "it closed the connection",
            "rank 2 says: the connection failed: reset",
            "it closed its connection to the host before it was done",
            "the host beside it: it closed its connection to this rank before it was done",
        ] {
            assert_eq!(word(reason, &records()), Word::Cut, "{reason}");
        }
        assert_eq!(word("no heartbeat for 2.0s", &records()), Word::Frozen);
        let own = Cause::Own { reason: "no room left for 0F3".to_owned() };
        assert_eq!(word("no room left for 0F3", &records()), Word::Said(Some(own)));
        assert_eq!(word("the door did not complete within 3s", &records()), Word::Said(None));
    }
}
