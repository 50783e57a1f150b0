//! What the GPU may still be using and nobody waits for any more.
//!
//! A process has one list of it. An entry is let go once its event is complete; entries are looked at whenever something is
//! launched, waited for, dropped or aborted. Nothing here waits.

use std::any::Any;
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::NcclError;
use crate::event::Event;

static PARKED: Mutex<Vec<Parked>> = Mutex::new(Vec::new());

/// Until when something is kept.
pub(crate) enum Until {
    /// The event is complete.
    Complete(Event),
    /// The event that this gives is complete. Asked again until it gives one.
    Then(Box<dyn Fn() -> Result<Option<Event>, NcclError> + Send>),
}

struct Parked {
    until: Until,
    /// Only kept, never looked at.
    _kept: Box<dyn Any + Send>,
}

impl Parked {
    fn is_done(&mut self) -> bool {
        if let Until::Then(ask) = &self.until {
            // On an error it is asked again later: letting go early is the one thing that must not be.
            let Ok(Some(event)) = ask() else { return false };
            self.until = Until::Complete(event);
        }
        let Until::Complete(event) = &self.until else { return false };
        // An error does not say that the work is done: the driver answers with one also while a stream is captured into a graph,
        // for an event of such a stream, and where it cannot make the context current. What belongs to a context that is broken
        // for good is therefore kept for good.
        event.is_complete().unwrap_or(false)
    }
}

/// Keeps something.
pub(crate) fn keep(until: Until, kept: impl Any + Send) {
    lock().push(Parked { until, _kept: Box::new(kept) });
}

/// Lets go of what is done with.
pub(crate) fn sweep() {
    let looked_at = mem::take(&mut *lock());
    if looked_at.is_empty() {
        return;
    }
    // Dropped without the lock: what is dropped may be anyone's, and may park something itself.
    let (done, kept): (Vec<_>, Vec<_>) =
        looked_at.into_iter().map(|mut entry| (entry.is_done(), entry)).partition(|it| it.0);
    lock().extend(kept.into_iter().map(|(_, entry)| entry));
    drop(done);
}

fn lock() -> MutexGuard<'static, Vec<Parked>> {
    PARKED.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn what_gives_no_event_stays() {
        let n_asked = Arc::new(AtomicUsize::new(0));
        let dropped = Arc::new(AtomicBool::new(false));
        struct Flag(Arc<AtomicBool>);
        impl Drop for Flag {
            fn drop(&mut self) {
                self.0.store(true, Ordering::SeqCst);
            }
        }
        let (count, flag) = (n_asked.clone(), Flag(dropped.clone()));
        let ask = move || {
            let before = count.fetch_add(1, Ordering::SeqCst);
            if before == 0 { Ok(None) } else { Err(NcclError::NoDriver) }
        };
        keep(Until::Then(Box::new(ask)), flag);
        sweep();
        sweep();
        assert!(n_asked.load(Ordering::SeqCst) >= 2);
        assert!(!dropped.load(Ordering::SeqCst));
    }
}
