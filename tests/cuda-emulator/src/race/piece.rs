//! Pieces of work and what they touch.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use crate::clock::{Actor, Clock};
use crate::job::Kind;
use crate::place::Place;

/// A piece of work, as far as its order goes.
#[derive(Debug)]
pub struct Piece {
    /// Whose work it is.
    pub actor: Actor,
    /// Which of the actor's pieces.
    pub number: u64,
    /// What it is, for reports: the call and where it is put.
    pub what: String,
    /// Where it was queued.
    pub place: Place,
    /// What is ordered before it, itself included, as known when it was queued.
    pub known: Clock,
    /// The pieces before it that may learn from peers and were not finished when it was queued: per actor the last.
    pub open: Clock,
    /// Whether it may itself learn from peers.
    pub learns: bool,
}

impl Piece {
    /// Whether a clock has it.
    pub fn is_before(&self, clock: &Clock) -> bool {
        clock.has(self.actor, self.number)
    }
}

/// Bytes of an allocation that a piece touches.
#[derive(Debug)]
pub struct Touch {
    /// Its name in the tracker.
    pub(super) id: u64,
    /// The allocation, as the caller numbers them.
    pub allocation: u64,
    /// The piece.
    pub piece: Arc<Piece>,
    /// How.
    pub kind: Kind,
    /// Which bytes.
    pub range: Range<usize>,
    /// What is ordered before it, once that is known.
    clock: OnceLock<Clock>,
}

impl Touch {
    pub(super) const fn new(id: u64, allocation: u64, piece: Arc<Piece>, kind: Kind, range: Range<usize>) -> Self {
        Self { id, allocation, piece, kind, range, clock: OnceLock::new() }
    }

    /// Says what is ordered before it. The first time counts.
    pub(super) fn set_clock(&self, clock: &Clock) {
        self.clock.get_or_init(|| clock.clone());
    }

    /// Whether it is known what is ordered before it.
    pub fn is_settled(&self) -> bool {
        self.clock.get().is_some()
    }

    /// Whether `other` is ordered before it, as far as that is known.
    pub(super) fn is_after(&self, other: &Self) -> bool {
        other.piece.is_before(self.clock.get().unwrap_or(&self.piece.known))
    }

    /// Whether the two would race without an order between them.
    pub(super) fn conflicts(&self, other: &Self) -> bool {
        let overlaps = self.range.start < other.range.end && other.range.start < self.range.end;
        overlaps && (self.kind == Kind::Write || other.kind == Kind::Write) && !Arc::ptr_eq(&self.piece, &other.piece)
    }

    /// Whether a peer might yet order `earlier` before it.
    pub(super) fn may_come_after(&self, earlier: &Self) -> bool {
        if self.is_settled() {
            return false;
        }
        let before = &earlier.piece.known;
        let own = self.piece.learns && self.kind == Kind::Write && before.count(self.piece.actor) < self.piece.number;
        own || self.piece.open.entries().any(|(actor, number)| number > before.count(actor))
    }
}

/// Two touches without an order.
#[derive(Clone, Debug)]
pub struct Race {
    /// The one queued first.
    pub first: Arc<Touch>,
    /// The one queued later.
    pub second: Arc<Touch>,
}
