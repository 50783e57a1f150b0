//! The end of a wait. Nothing in this crate blocks without one.

use std::time::{Duration, Instant};

/// Stands for "never" where a limit is too long for the clock.
const FAR: Duration = Duration::from_secs(365 * 24 * 3600);

/// A moment at which a wait gives up, and the limit it came from (for the message).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    end: Instant,
    limit: Duration,
}

impl Deadline {
    pub(crate) fn after(limit: Duration) -> Self {
        let now = Instant::now();
        Self { end: now.checked_add(limit).unwrap_or(now + FAR), limit }
    }

    pub(crate) const fn limit(self) -> Duration {
        self.limit
    }

    /// What is left of it; `None` once it has passed.
    pub(crate) fn remaining(self) -> Option<Duration> {
        self.end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
    }

    /// The same limit with some time on top, for waits whose verdict another rank gives at the limit itself.
    pub(crate) fn with_grace(self, grace: Duration) -> Self {
        Self { end: self.end.checked_add(grace).unwrap_or(self.end), limit: self.limit }
    }

    /// The same or an earlier end, no later than `limit` from now.
    pub(crate) fn at_most(self, limit: Duration) -> Self {
        Self { end: Instant::now().checked_add(limit).map_or(self.end, |end| end.min(self.end)), limit: self.limit }
    }
}
