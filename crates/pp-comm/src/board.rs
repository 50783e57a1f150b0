//! State shared by threads, with waits that end.

use crate::deadline::Deadline;
use crate::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A value that threads change and wait on.
#[derive(Debug, Default)]
pub(crate) struct Board<S> {
    state: Mutex<S>,
    changed: Condvar,
}

impl<S> Board<S> {
    pub(crate) fn new(state: S) -> Self {
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Changes the state and wakes everybody who waits on it.
    pub(crate) fn update<R>(&self, change: impl FnOnce(&mut S) -> R) -> R {
        let result = change(&mut self.lock());
        self.changed.notify_all();
        result
    }

    /// Waits until `look` finds what it looks for; `None` when the deadline passes first. It is asked at least once.
    pub(crate) fn wait<R>(&self, deadline: Deadline, mut look: impl FnMut(&mut S) -> Option<R>) -> Option<R> {
        let mut state = self.lock();
        loop {
            if let Some(found) = look(&mut state) {
                return Some(found);
            }
            let left = deadline.remaining()?;
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Looks without waiting.
    pub(crate) fn read<R>(&self, look: impl FnOnce(&S) -> R) -> R {
        look(&self.lock())
    }

    /// A thread that panicked while it held the lock leaves a state that is still whole: every change is a few moves.
    fn lock(&self) -> MutexGuard<'_, S> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
