//! How a waiter passes the time before it sleeps.

use std::hint::spin_loop;
use std::thread::yield_now;
use std::time::{Duration, Instant};

/// The longest time without sleep. Sleeping and being woken costs tens of microseconds, so a message that is nearly there is
/// waited for awake; whoever waits longer leaves the processor to others.
const LONGEST: Duration = Duration::from_micros(200);

/// Looks before the processor is offered to others at every further one. Where the peer, or another rank, shares this processor,
/// it must not wait until the spinning is over; where nobody does, the offer costs less than a microsecond.
const SELFISH_LOOKS: u32 = 20;

/// One stretch of waiting.
#[derive(Debug, Default)]
pub(super) struct Spin {
    n_looks: u32,
    began: Option<Instant>,
}

impl Spin {
    /// Lets a moment pass; false when it is time to sleep.
    pub(super) fn turn(&mut self) -> bool {
        self.n_looks += 1;
        if self.n_looks <= SELFISH_LOOKS {
            spin_loop();
            return true;
        }
        let began = *self.began.get_or_insert_with(Instant::now);
        yield_now();
        began.elapsed() < LONGEST
    }

    /// Something moved: more may follow at once.
    pub(super) fn restart(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_soon() {
        let (start, mut spin) = (Instant::now(), Spin::default());
        while spin.turn() {
            assert!(start.elapsed() < Duration::from_secs(10), "it would never sleep");
        }
        assert!(start.elapsed() >= LONGEST && spin.n_looks > SELFISH_LOOKS);
    }
}
