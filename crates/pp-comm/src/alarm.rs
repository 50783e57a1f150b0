//! The loss of a rank, shared by everything of this rank that waits: whoever notices it rings once, and all waits end.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::deadline::Deadline;
use crate::error::Loss;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// What is done when it rings: wakes a waiter that does not look by itself.
type Waker = Box<dyn Fn() + Send>;

/// What is done once it has rung, in a thread of its own.
type Callback = Box<dyn FnOnce(Loss) + Send>;

/// How long a wait that the alarm cannot wake may go on without a look at it.
const SLICE: Duration = Duration::from_millis(50);

/// A handle on one rank's alarm.
#[derive(Clone, Default)]
pub(crate) struct Alarm(Arc<Shared>);

#[derive(Default)]
struct Shared {
    rung: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    loss: Option<Loss>,
    wakers: Vec<Waker>,
    callbacks: Vec<Callback>,
}

impl Alarm {
    /// Notes that a rank is gone; the first one noted stays.
    pub(crate) fn ring(&self, loss: Loss) {
        let mut state = self.lock();
        if state.loss.is_some() {
            return;
        }
        state.loss = Some(loss.clone());
        self.0.rung.store(true, Ordering::Release);
        for wake in &state.wakers {
            wake();
        }
        let callbacks = std::mem::take(&mut state.callbacks);
        drop(state);
        self.0.changed.notify_all();
        for callback in callbacks {
            call(callback, loss.clone());
        }
    }

    /// Whether it has rung; costs one load, so that a spinning waiter can ask.
    pub(crate) fn has_rung(&self) -> bool {
        self.0.rung.load(Ordering::Acquire)
    }

    /// The rank that is gone, and why.
    pub(crate) fn loss(&self) -> Option<Loss> {
        if self.has_rung() { self.lock().loss.clone() } else { None }
    }

    /// Has `wake` called when it rings. It must not ring or look at the alarm itself. A waker that comes too late is called
    /// at once.
    pub(crate) fn on_ring(&self, wake: impl Fn() + Send + 'static) {
        let mut state = self.lock();
        if state.loss.is_some() {
            wake();
        }
        state.wakers.push(Box::new(wake));
    }

    /// Has `callback` called once it rings, or at once if it has: in a thread of its own, so that it may take its time.
    pub(crate) fn on_loss(&self, callback: impl FnOnce(Loss) + Send + 'static) {
        let mut state = self.lock();
        match state.loss.clone() {
            Some(loss) => call(Box::new(callback), loss),
            None => state.callbacks.push(Box::new(callback)),
        }
    }

    /// Waits for it to ring: whoever sees a rank go gives the host this long to say which one went first.
    pub(crate) fn wait(&self, deadline: Deadline) -> Option<Loss> {
        let mut state = self.lock();
        loop {
            if state.loss.is_some() {
                return state.loss.clone();
            }
            let left = deadline.remaining()?;
            state = self.0.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// A thread that panicked while it held the lock leaves a state that is still whole: every change is one move.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long a wait may go on that nothing wakes: until its deadline, or until a rank is lost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watch<'a> {
    deadline: Deadline,
    /// None where no rank can be lost yet.
    alarm: Option<&'a Alarm>,
}

impl<'a> Watch<'a> {
    pub(crate) const fn new(deadline: Deadline, alarm: &'a Alarm) -> Self {
        Self { deadline, alarm: Some(alarm) }
    }

    /// How long the next part of the wait may take.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`] after the deadline, [`io::ErrorKind::ConnectionAborted`] once a rank is lost.
    pub(crate) fn slice(self) -> io::Result<Duration> {
        if let Some(loss) = self.alarm.and_then(Alarm::loss) {
            return Err(io::Error::new(io::ErrorKind::ConnectionAborted, format!("rank {} is lost", loss.rank)));
        }
        Ok(self.left()?.min(SLICE))
    }

    /// What is left until the deadline.
    pub(crate) fn left(self) -> io::Result<Duration> {
        self.deadline.remaining().ok_or_else(|| io::ErrorKind::TimedOut.into())
    }
}

impl From<Deadline> for Watch<'_> {
    fn from(deadline: Deadline) -> Self {
        Self { deadline, alarm: None }
    }
}

fn call(callback: Callback, loss: Loss) {
    // A machine that cannot start a thread has other troubles; the callback must not hold up those who wait.
    let _ = thread::Builder::new().name("on-loss".to_owned()).spawn(move || callback(loss));
}

impl fmt::Debug for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Alarm").field(&self.loss()).finish()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::AtomicU32;
    use std::sync::mpsc;
    use std::time::Duration;

    use pp_schedule::Rank;

    use super::*;

    #[test]
    fn the_first_loss_stays_and_every_waker_is_called_once() {
        let (alarm, n_calls) = (Alarm::default(), Arc::new(AtomicU32::new(0)));
        let count = |n_calls: &Arc<AtomicU32>| {
            let n_calls = Arc::clone(n_calls);
            move || {
                n_calls.fetch_add(1, Ordering::Relaxed);
            }
        };
        alarm.on_ring(count(&n_calls));
        assert!(!alarm.has_rung() && alarm.loss().is_none());
        for rank in [3, 1] {
            alarm.ring(Loss { rank: Rank(rank), reason: "it ended".to_owned() });
        }
        assert_eq!(alarm.loss().map(|loss| loss.rank), Some(Rank(3)));
        assert_eq!(n_calls.load(Ordering::Relaxed), 1);
        alarm.on_ring(count(&n_calls));
        assert_eq!(n_calls.load(Ordering::Relaxed), 2, "too late, so at once");
    }

    #[test]
    fn callbacks_get_the_loss_once_before_and_after_it_rings_and_may_look_at_the_alarm() {
        let (alarm, (sender, told)) = (Alarm::default(), mpsc::channel());
        assert!(alarm.wait(Deadline::after(Duration::from_millis(5))).is_none());
        let callback = || {
            let (sender, alarm) = (sender.clone(), alarm.clone());
            move |loss: Loss| {
                assert!(alarm.has_rung());
                sender.send(loss.rank).expect("the test waits");
            }
        };
        alarm.on_loss(callback());
        for rank in [3, 1] {
            alarm.ring(Loss { rank: Rank(rank), reason: "it ended".to_owned() });
        }
        alarm.on_loss(callback());
        let patience = Duration::from_secs(20);
        assert_eq!([told.recv_timeout(patience), told.recv_timeout(patience)], [Ok(Rank(3)), Ok(Rank(3))]);
        assert!(told.try_recv().is_err(), "once each");
        assert_eq!(alarm.wait(Deadline::after(patience)).map(|loss| loss.rank), Some(Rank(3)));
    }
}
