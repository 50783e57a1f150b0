//! One clock for all ranks of a machine: nanoseconds since it started.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// How often the clocks are read to find how they lie to each other: whoever reads may be interrupted.
const READINGS: usize = 16;

/// Tells instants of this process as times that mean the same in every process of the machine. How the two clocks lie to
/// each other is read several times, and the reading that took least is kept: times of different processes are off by what
/// that takes, well under a microsecond. Ranks on different machines have no such clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    instant: Instant,
    /// The same moment, since the machine started.
    time: Duration,
}

impl Clock {
    pub(crate) fn new() -> Self {
        let read = |_| {
            let before = Instant::now();
            let time = clock_gettime(ClockId::Monotonic);
            let took = before.elapsed();
            let time = Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default());
            (took, Self { instant: before + took / 2, time })
        };
        let first = read(0);
        (1..READINGS).map(read).fold(first, |best, next| if next.0 < best.0 { next } else { best }).1
    }

    /// Since the machine started.
    pub(crate) fn time_of(&self, instant: Instant) -> Duration {
        match instant.checked_duration_since(self.instant) {
            Some(after) => self.time + after,
            None => self.time.saturating_sub(self.instant - instant),
        }
    }
}
