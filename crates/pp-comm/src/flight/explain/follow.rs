//! From a rank that waits to the one that it waits for, and on, to where the waiting comes from.

use std::collections::BTreeSet;

use super::view::{End, Fate, Silence, View, end_of, wait_of};
use crate::flight::parts::SubjectPart;
use crate::flight::record::EventRecord;

/// Where a chain of waits ends. In the order in which they are to be believed: each may bring about those after it.
#[derive(Clone, Debug)]
pub(super) enum Origin<'a> {
    /// A rank without a record, which did not end by itself.
    StoodStill { rank: u32 },
    /// A message that was sent and did not arrive.
    Lost { receive: End, sent: &'a EventRecord, is_complete: bool },
    /// A transfer that the other side has passed by.
    Skipped { waits: End },
    /// A transfer that the other side may have posted before all that it remembers.
    Forgotten { waits: End },
    /// A transfer that both sides have posted and that does not go on.
    HeldUp { send: End },
    /// Ranks that wait for each other.
    Circle { ranks: Vec<u32> },
    /// A rank of which the records do not say what it was at.
    Unheard { rank: u32 },
    /// A rank that waits for nobody.
    Busy { rank: u32 },
    /// The records do not say for whom the last one waits.
    Unclear,
}

impl Origin<'_> {
    pub(super) const fn order(&self) -> u8 {
        match self {
            Self::StoodStill { .. } => 0,
            Self::Lost { .. } => 1,
            Self::Skipped { .. } => 2,
            Self::Circle { .. } => 3,
            Self::HeldUp { .. } => 4,
            // It may have held up one that only seems busy.
            Self::Unheard { .. } => 5,
            Self::Busy { .. } => 6,
            Self::Forgotten { .. } => 7,
            Self::Unclear => 8,
        }
    }
}

/// What one rank's wait leads to.
enum Next<'a> {
    Rank(u32),
    /// One of these; whichever leads farthest.
    AnyOf(Vec<u32>),
    End(Origin<'a>),
}

/// Follows the waits from a rank on.
pub(super) fn follow(view: View<'_>, start: u32) -> Origin<'_> {
    Walk { view, path: Vec::new(), seen: BTreeSet::new() }.go(start)
}

struct Walk<'a> {
    view: View<'a>,
    /// The ranks on the way here.
    path: Vec<u32>,
    /// The ranks that were come by, each once: what they lead to is known elsewhere.
    seen: BTreeSet<u32>,
}

impl<'a> Walk<'a> {
    fn go(&mut self, rank: u32) -> Origin<'a> {
        if let Some(place) = self.path.iter().position(|&on_path| on_path == rank) {
            return Origin::Circle { ranks: self.path[place..].to_vec() };
        }
        if !self.seen.insert(rank) {
            return Origin::Unclear;
        }
        self.path.push(rank);
        let origin = match next(self.view, rank) {
            Next::End(origin) => origin,
            Next::Rank(next) => self.go(next),
            Next::AnyOf(ranks) => {
                let origins = ranks.into_iter().map(|next| self.go(next));
                origins.min_by_key(Origin::order).unwrap_or(Origin::Unclear)
            }
        };
        self.path.pop();
        origin
    }
}

fn next(view: View<'_>, rank: u32) -> Next<'_> {
    let Some(record) = view.record(rank) else { return Next::End(silent(view, rank)) };
    let Some(wait) = wait_of(record) else {
        return Next::End(if view.is_stand_in(rank) { Origin::Unheard { rank } } else { Origin::Busy { rank } });
    };
    if let Some(waits) = end_of(wait) {
        return of_transfer(view, waits);
    }
    let SubjectPart::Collective { group, round, .. } = wait.subject else { return Next::End(Origin::Unclear) };
    Next::AnyOf(match group {
        None => view.absent(round),
        Some(group) => view.absent_in(group, round),
    })
}

fn silent<'a>(view: View<'_>, rank: u32) -> Origin<'a> {
    match view.silence(rank) {
        Silence::StoodStill => Origin::StoodStill { rank },
        Silence::NoRecord | Silence::Unknown => Origin::Unheard { rank },
    }
}

fn of_transfer(view: View<'_>, waits: End) -> Next<'_> {
    use crate::flight::parts::RoleName::{Receive, Send};
    let other = waits.other();
    Next::End(match (waits.role, view.fate(other)) {
        (Receive, Fate::Done(sent)) => Origin::Lost { receive: waits, sent, is_complete: true },
        (Receive, Fate::Posted(sent)) => {
            // Whoever waits for it to leave feels that it is held up; a lost one nobody feels.
            let sender = view.record(other.rank()).and_then(wait_of).and_then(end_of);
            if sender == Some(other) {
                Origin::HeldUp { send: other }
            } else {
                Origin::Lost { receive: waits, sent, is_complete: false }
            }
        }
        (Send, Fate::Done(_) | Fate::Posted(_)) => Origin::HeldUp { send: waits },
        (_, Fate::Skipped) => Origin::Skipped { waits },
        (_, Fate::Forgotten) => Origin::Forgotten { waits },
        (_, Fate::NoRecord | Fate::NotYet) => return Next::Rank(other.rank()),
    })
}
