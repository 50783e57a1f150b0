//! Waiting for something that can only be asked about, with a deadline.

use std::thread;
use std::time::{Duration, Instant};

use crate::error::NcclError;

/// For as long the processor is kept: most waits inside a step are shorter.
const SPIN: Duration = Duration::from_micros(50);
/// The first and the longest sleep between two looks.
const SHORTEST_SLEEP: Duration = Duration::from_micros(20);
const LONGEST_SLEEP: Duration = Duration::from_micros(500);

/// A wait under way.
pub(crate) struct Wait {
    call: &'static str,
    limit: Duration,
    begun: Instant,
    sleep: Duration,
}

impl Wait {
    /// Begins to wait for `call`, for at most `limit` from now.
    pub(crate) fn new(call: &'static str, limit: Duration) -> Self {
        Self { call, limit, begun: Instant::now(), sleep: SHORTEST_SLEEP }
    }

    /// Looks until there is something, at least once. Sleeps longer the longer it takes.
    pub(crate) fn until<T>(&mut self, mut look: impl FnMut() -> Result<Option<T>, NcclError>) -> Result<T, NcclError> {
        loop {
            if let Some(found) = look()? {
                return Ok(found);
            }
            self.pause()?;
        }
    }

    /// Time left.
    pub(crate) fn left(&self) -> Duration {
        self.limit.saturating_sub(self.begun.elapsed())
    }

    /// That it is over.
    pub(crate) fn late(&self) -> NcclError {
        NcclError::Deadline { call: self.call, limit: self.limit }
    }

    fn pause(&mut self) -> Result<(), NcclError> {
        let waited = self.begun.elapsed();
        if waited >= self.limit {
            return Err(self.late());
        }
        if waited < SPIN {
            // Also lets a thread of the same process run that this one waits for.
            thread::yield_now();
            return Ok(());
        }
        thread::sleep(self.sleep.min(self.limit - waited));
        self.sleep = (self.sleep * 2).min(LONGEST_SLEEP);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_without_time_looks_once() {
        let mut n_looks = 0;
        let result = Wait::new("nothing", Duration::ZERO).until(|| {
            n_looks += 1;
            Ok(None::<()>)
        });
        assert_eq!(result, Err(NcclError::Deadline { call: "nothing", limit: Duration::ZERO }));
        assert_eq!(n_looks, 1);
    }

    #[test]
    fn a_wait_ends_when_there_is_something_and_bears_any_limit() {
        let mut n_looks = 0;
        let found = Wait::new("something", Duration::MAX).until(|| {
            n_looks += 1;
            Ok((n_looks == 300).then_some(n_looks))
        });
        assert_eq!(found, Ok(300));
    }

    #[test]
    fn a_wait_ends_soon_after_its_deadline() {
        let limit = Duration::from_millis(20);
        let begun = Instant::now();
        let result = Wait::new("nothing", limit).until(|| Ok(None::<()>));
        assert!(result.is_err() && begun.elapsed() >= limit);
    }
}
