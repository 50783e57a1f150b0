//! Points in the work of streams that others wait for.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::clock::Clock;
use crate::race::Piece;

/// How often whoever waits looks whether waiting has become pointless.
const LOOK: Duration = Duration::from_millis(20);

/// The end of a piece of work.
#[derive(Debug)]
pub(super) struct Mark {
    pub(super) piece: Arc<Piece>,
    end: Mutex<Option<Arc<End>>>,
    has_ended: Condvar,
}

/// How a piece ended.
#[derive(Debug)]
pub(super) struct End {
    /// What is ordered before what comes after it.
    pub(super) clock: Clock,
    /// When.
    pub(super) at: Instant,
}

impl Mark {
    pub(super) fn new(piece: Arc<Piece>) -> Arc<Self> {
        Arc::new(Self { piece, end: Mutex::default(), has_ended: Condvar::new() })
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<End>>> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How it ended, if it has.
    pub(super) fn end(&self) -> Option<Arc<End>> {
        self.lock().clone()
    }

    /// It has ended now.
    pub(super) fn set_end(&self, clock: Clock) {
        *self.lock() = Some(Arc::new(End { clock, at: Instant::now() }));
        self.has_ended.notify_all();
    }

    /// Waits until it has ended; `None` if `is_pointless` says so before that.
    pub(super) fn wait(&self, is_pointless: impl Fn() -> bool) -> Option<Arc<End>> {
        let mut end = self.lock();
        loop {
            if let Some(end) = &*end {
                return Some(Arc::clone(end));
            }
            if is_pointless() {
                return None;
            }
            end = self.has_ended.wait_timeout(end, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
