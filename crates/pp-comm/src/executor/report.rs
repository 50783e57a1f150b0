//! What a step took.

use std::time::Duration;

use pp_schedule::SlotClass;

/// What a step took. Whatever is left of `total` beside the other times is the executor's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepReport {
    /// Time from the first action to the last.
    pub total: Duration,
    /// Time spent in computations.
    pub compute: Duration,
    /// Time spent starting sends and receives.
    pub post: Duration,
    /// Time spent waiting for sends to be complete.
    pub wait_send: Duration,
    /// Time spent waiting for messages.
    pub wait_receive: Duration,
    pub(super) peak: [usize; 4],
    pub(super) peak_bytes: u64,
    pub(super) peak_deferred: usize,
}

impl StepReport {
    /// The most slots of a class that were in use at once, counted while the program ran.
    pub const fn peak(&self, class: SlotClass) -> usize {
        self.peak[class as usize]
    }

    /// The most bytes of messages that were in memory at once, or promised to be: received or to be received, made and not
    /// known to be sent, or on their way between stages of the rank. What a stage keeps for its backwards comes on top.
    pub const fn peak_bytes(&self) -> u64 {
        self.peak_bytes
    }

    /// The most weight gradients that were put off at once: backwards for the input that were done, and for the weights
    /// that were not. Counted while the program ran.
    pub const fn peak_deferred(&self) -> usize {
        self.peak_deferred
    }
}
