//! How communicators end: on a thread of their own.
//!
//! What NCCL frees as it aborts or destroys a communicator may wait for all that the GPU is at, and so for the kernels of
//! another communicator, which wait for a rank that is gone until that one is aborted too. Whoever ended the two one after the
//! other would wait for ever. So NCCL is called on a thread, and whoever ends a communicator waits for that with a limit.

use std::ffi::c_int;
use std::panic::catch_unwind;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::parked;

/// A communicator that a thread is ending.
#[derive(Clone, Default)]
pub(crate) struct Ending {
    answer: Arc<(Mutex<Option<c_int>>, Condvar)>,
}

impl Ending {
    /// Has a thread call NCCL, and then `after`.
    pub(crate) fn begin(call: impl FnOnce() -> c_int + Send + 'static, after: impl FnOnce() + Send + 'static) -> Self {
        let ending = Self::default();
        let told = ending.clone();
        let work = Arc::new(Mutex::new(Some(move || {
            let code = call();
            after();
            // What is let go of may be anyone's, and panic as it is dropped; whoever waits is told all the same.
            let _ = catch_unwind(parked::sweep);
            told.tell(code);
        })));
        let own = work.clone();
        let started = thread::Builder::new().name("nccl-rs: ending".into()).spawn(move || run(&own));
        if started.is_err() {
            // Without threads there is only this one.
            run(&work);
        }
        ending
    }

    fn tell(&self, code: c_int) {
        let (answer, changed) = &*self.answer;
        *answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(code);
        changed.notify_all();
    }

    /// What NCCL answered, if it does within that time.
    pub(crate) fn wait(&self, limit: Duration) -> Option<c_int> {
        let (answer, changed) = &*self.answer;
        let begun = Instant::now();
        let mut found = answer.lock().unwrap_or_else(PoisonError::into_inner);
        while found.is_none() {
            let left = limit.checked_sub(begun.elapsed()).filter(|left| !left.is_zero())?;
            found = changed.wait_timeout(found, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        *found
    }
}

fn run(work: &Mutex<Option<impl FnOnce()>>) {
    let work = work.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(work) = work {
        work();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn two_that_wait_for_each_other_are_ended_one_after_the_other() {
        // As NCCL's two, of which each lets go only once the other is being aborted.
        let ((to_first, of_first), (to_second, of_second)) = (mpsc::channel(), mpsc::channel());
        let first = Ending::begin(
            move || {
                to_second.send(()).unwrap();
                of_first.recv().map_or(1, |()| 0)
            },
            || {},
        );
        assert_eq!(first.wait(Duration::from_millis(20)), None);
        let is_after = Arc::new(AtomicBool::new(false));
        let flag = is_after.clone();
        let second = Ending::begin(
            move || {
                to_first.send(()).unwrap();
                of_second.recv().map_or(1, |()| 7)
            },
            move || flag.store(true, Ordering::SeqCst),
        );
        assert_eq!(first.wait(Duration::from_secs(20)), Some(0));
        assert_eq!(second.wait(Duration::from_secs(20)), Some(7));
        assert!(is_after.load(Ordering::SeqCst));
        // What was answered stays.
        assert_eq!(second.wait(Duration::ZERO), Some(7));
    }
}
