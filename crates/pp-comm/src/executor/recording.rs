//! What a rank did when, while it ran its program.

use std::time::{Duration, Instant};

use pp_schedule::{Message, Rank, Work};

/// What a rank did for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Did {
    /// It computed.
    Compute(Work),
    /// It waited until a message had left, to this rank.
    WaitSend(Message, Rank),
    /// It waited for a message, from this rank.
    WaitReceive(Message, Rank),
}

/// Something that was done, with its times since the step began on this rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// What.
    pub did: Did,
    /// From when.
    pub start: Duration,
    /// Until when.
    pub end: Duration,
}

/// Keeps what [`execute_recorded`](super::execute_recorded) did in one step, in turn. Used again, it begins afresh and keeps
/// its memory.
#[derive(Debug)]
pub struct Recording {
    is_on: bool,
    began: Instant,
    spans: Vec<Span>,
}

impl Default for Recording {
    fn default() -> Self {
        Self::new(true)
    }
}

impl Recording {
    fn new(is_on: bool) -> Self {
        Self { is_on, began: Instant::now(), spans: Vec::new() }
    }

    /// Keeps nothing.
    pub(super) fn off() -> Self {
        Self::new(false)
    }

    pub(super) fn begin(&mut self, began: Instant, n_spans: usize) {
        if self.is_on {
            self.began = began;
            self.spans.clear();
            self.spans.reserve(n_spans);
        }
    }

    #[inline]
    pub(super) fn add(&mut self, did: Did, start: Instant, end: Instant) {
        if self.is_on {
            self.spans.push(Span { did, start: start - self.began, end: end - self.began });
        }
    }

    /// When the step began on this rank.
    pub const fn began(&self) -> Instant {
        self.began
    }

    /// What was done, in turn.
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }
}
