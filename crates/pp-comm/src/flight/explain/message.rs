//! What went wrong with a message: lost, twice, never sent, of another shape, held up.

use super::follow::Origin;
use super::view::{End, Fate, View, at_action, time};
use super::{Finding, Verdict};
use crate::flight::cause::{BoundaryPart, Cause};
use crate::flight::parts::{ChannelPart, LabelPart, RoleName};
use crate::flight::record::{EventRecord, RankRecord};

/// What is wrong with what a rank was sent, if that is why it failed.
pub(super) fn fault(view: View<'_>, record: &RankRecord) -> Option<Finding> {
    match &record.cause {
        Cause::WrongMessage { channel, expected, found } => Some(wrong_message(view, *channel, *expected, *found)),
        Cause::WrongBoundary { channel, label, expected, found } => {
            Some(wrong_boundary(view, (*channel, *label), expected, found))
        }
        Cause::Malformed { channel, reason } => {
            let (from, to) = (channel.source, channel.destination);
            let said = format!("rank {from} sent rank {to} bytes that are no message: {reason}");
            Some(Finding::new(Verdict::Malformed, from, said))
        }
        Cause::CollectiveMismatch { round, rank, theirs, ours } => {
            let said = format!("rank {rank} asked for {theirs} where others asked for {ours}, as collective {round}");
            Some(Finding::new(Verdict::Disagreed, *rank, said))
        }
        _ => None,
    }
}

/// What became of a message that a rank waited for in vain.
pub(super) fn of_origin(view: View<'_>, origin: &Origin<'_>) -> Option<Finding> {
    Some(match origin {
        Origin::Lost { receive, sent, is_complete } => lost(*receive, sent, *is_complete),
        Origin::Skipped { waits } => skipped(view, *waits),
        Origin::HeldUp { send } => held_up(view, *send),
        Origin::Forgotten { waits } => {
            let (rank, other) = (waits.rank(), waits.other());
            let said = format!(
                "rank {rank} waited in vain for {}; rank {} has forgotten whether it ever posted its side: that would be \
                 before all that it still remembers",
                waits.label,
                other.rank()
            );
            Finding::new(Verdict::Lost, other.rank(), said).at(waits.label.step(), None)
        }
        _ => return None,
    })
}

fn lost(receive: End, sent: &EventRecord, is_complete: bool) -> Finding {
    let (from, to) = (receive.channel.source, receive.rank());
    let complete = if is_complete { ", and had it sent to the end" } else { "" };
    let said = format!(
        "{} was lost on its way from rank {from} to rank {to}: rank {from} posted it{}{complete}, and rank {to} waited for it \
         in vain",
        receive.label,
        at_action(sent.action)
    );
    let evidence = vec![format!(
        "rank {from}: {}, {} bytes, {} before its record",
        sent.text,
        sent.bytes,
        time(sent.seconds_before)
    )];
    Finding { evidence, ..Finding::new(Verdict::Lost, from, said).at(receive.label.step(), sent.action) }
}

fn skipped(view: View<'_>, waits: End) -> Finding {
    let (rank, other) = (waits.rank(), waits.other());
    let side = if waits.role == RoleName::Receive { "sent" } else { "taken" };
    let said = format!(
        "{} was never {side} by rank {}, which has gone on past it, while rank {rank} waited",
        waits.label,
        other.rank()
    );
    let action = view.record(other.rank()).and_then(|record| record.action);
    Finding::new(Verdict::NeverPosted, other.rank(), said).at(waits.label.step(), action)
}

fn held_up(view: View<'_>, send: End) -> Finding {
    let (from, to) = (send.channel.source, send.channel.destination);
    let said = format!(
        "{} was held up between rank {from} and rank {to}: both have posted it, and it did not go on",
        send.label
    );
    let posted = match view.fate(send) {
        Fate::Posted(event) | Fate::Done(event) => Some(event),
        _ => None,
    };
    let evidence =
        posted.map(|event| format!("rank {from} posted it {} before its record", time(event.seconds_before)));
    let action = posted.and_then(|event| event.action);
    Finding { evidence: evidence.into_iter().collect(), ..Finding::new(Verdict::HeldUp, from, said) }
        .at(send.label.step(), action)
}

/// Another message came than was expected: the expected one is lost or was never sent, or this one came twice.
fn wrong_message(view: View<'_>, channel: ChannelPart, expected: LabelPart, found: LabelPart) -> Finding {
    let (from, to) = (channel.source, channel.destination);
    let end = |role, label| End { role, channel, label };
    let place = format!("rank {to} received {found} in the place of {expected}");
    let action_of = |label| match view.fate(end(RoleName::Send, label)) {
        Fate::Posted(event) | Fate::Done(event) => event.action,
        _ => None,
    };
    // Messages arrive in the order in which they are sent: what was sent before the expected one has been here already.
    let was_before = view.is_stand_in(to)
        && matches!((view.place(end(RoleName::Send, found)), view.place(end(RoleName::Send, expected))),
            (Some(found), Some(expected)) if found < expected);
    if was_before || view.n_done(end(RoleName::Receive, found)) > 0 {
        let said = format!(
            "{found} arrived twice at rank {to}: rank {from} sent it{} and {place}",
            at_action(action_of(found))
        );
        return Finding::new(Verdict::Duplicated, from, said).at(found.step(), action_of(found));
    }
    match view.fate(end(RoleName::Send, expected)) {
        Fate::Posted(sent) | Fate::Done(sent) => {
            let is_complete = matches!(view.fate(end(RoleName::Send, expected)), Fate::Done(_));
            let found = lost(end(RoleName::Receive, expected), sent, is_complete);
            Finding { summary: format!("{}: {place}", found.summary), ..found }
        }
        Fate::NotYet | Fate::Skipped => {
            let said = format!("{expected} was never sent by rank {from}: {place}");
            Finding::new(Verdict::NeverPosted, from, said).at(expected.step(), action_of(found))
        }
        Fate::NoRecord | Fate::Forgotten => {
            let said = format!("{expected} was lost on its way from rank {from} to rank {to}, or never sent: {place}");
            Finding::new(Verdict::Lost, from, said).at(expected.step(), None)
        }
    }
}

fn wrong_boundary(
    view: View<'_>,
    (channel, label): (ChannelPart, LabelPart),
    expected: &BoundaryPart,
    found: &BoundaryPart,
) -> Finding {
    let (from, to) = (channel.source, channel.destination);
    let (verdict, what) = if expected.dtype == found.dtype {
        (Verdict::WrongShape, "shape")
    } else {
        (Verdict::WrongType, "element type")
    };
    let sent = match view.fate(End { role: RoleName::Send, channel, label }) {
        Fate::Posted(event) | Fate::Done(event) => Some(event),
        _ => None,
    };
    let action = sent.and_then(|event| event.action);
    let said = format!(
        "{label} came from rank {from}{} with another {what} than agreed: it was {found}, and rank {to} had agreed to {expected}",
        at_action(action)
    );
    let evidence = sent.map(|event| {
        format!("rank {from} posted {} bytes of it, {} before its record", event.bytes, time(event.seconds_before))
    });
    Finding { evidence: evidence.into_iter().collect(), ..Finding::new(verdict, from, said) }.at(label.step(), action)
}
