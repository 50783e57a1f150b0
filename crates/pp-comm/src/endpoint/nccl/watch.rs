//! The watchdog: a thread that sees to it that nothing hangs on the device. When a rank is lost, a communicator has failed, or
//! the compute stream has stood at a wait for longer than the deadline, it aborts all communicators of this rank. The first
//! cause stays: whatever is asked of the endpoint afterwards ends in it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nccl_rs::{AbortHandle, CommStatus, Event, NcclError};
use pp_schedule::{Channel, Rank};

use crate::alarm::Alarm;
use crate::deadline::Deadline;
use crate::endpoint::link::Eye;
use crate::endpoint::spin::Spin;
use crate::error::{CommError, Communicator};

/// Between two looks at everything.
const INTERVAL: Duration = Duration::from_millis(10);

/// Between two looks of whoever settles.
const PAUSE: Duration = Duration::from_micros(200);

/// A peer's death shows to NCCL too, maybe before the host has told of it: it is given this long to say which rank it was.
const GRACE: Duration = Duration::from_millis(500);

/// How long a communicator is waited for at the end that a peer has left already.
const UNSETTLED: Duration = Duration::from_secs(1);

/// A wait that was put on the compute stream.
#[derive(Debug)]
pub(super) struct StreamWait {
    /// The compute stream has come to it.
    pub(super) reached: Event,
    /// What it waits for.
    pub(super) done: Event,
    /// Which communicator that is of.
    pub(super) of: Communicator,
    /// How long it may take from there on, and what it is then.
    pub(super) limit: Duration,
    pub(super) late: CommError,
}

/// The thread, and what it shares with the endpoint's.
#[derive(Debug)]
pub(super) struct Watchdog {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    alarm: Alarm,
    communicators: Vec<(Communicator, AbortHandle)>,
    /// On the host links of the channels.
    eyes: Vec<(Channel, Eye)>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    cause: Option<CommError>,
    /// What was launched and may still be waited for, by number.
    open: BTreeMap<u64, Event>,
    /// Of that, what was complete before everything was aborted: from then on it cannot be told any more.
    complete: BTreeSet<u64>,
    /// In the order in which the compute stream comes to them.
    waits: VecDeque<StreamWait>,
    /// When the first of them was seen to be reached.
    reached_at: Option<Instant>,
    /// Once the endpoint leaves, by communicator: when a peer was first seen to have left.
    left_at: Option<Vec<Option<Instant>>>,
    stop: bool,
}

impl Watchdog {
    /// Starts the thread of a rank.
    pub(super) fn start(
        rank: Rank,
        alarm: &Alarm,
        communicators: Vec<(Communicator, AbortHandle)>,
        eyes: Vec<(Channel, Eye)>,
    ) -> Result<Self, CommError> {
        let (state, changed) = (Mutex::default(), Condvar::new());
        let shared = Arc::new(Shared { alarm: alarm.clone(), communicators, eyes, state, changed });
        let waked = Arc::downgrade(&shared);
        alarm.on_ring(move || waked.upgrade().iter().for_each(|shared| shared.changed.notify_all()));
        let watched = Arc::clone(&shared);
        let thread = thread::Builder::new().name(format!("nccl watchdog {rank}")).spawn(move || watched.watch());
        let thread = thread.map_err(|error| CommError::System {
            what: "start the thread that watches over NCCL".to_owned(),
            reason: error.to_string(),
        })?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Why nothing more will complete, if that is so.
    pub(super) fn cause(&self) -> Option<CommError> {
        self.shared.lock().cause.clone()
    }

    /// Aborts everything because of an error, unless that was done already; gives the first cause.
    pub(super) fn fail(&self, error: CommError) -> CommError {
        self.shared.fail(error)
    }

    /// Where launches are to be entered.
    pub(super) fn register(&self) -> Register {
        Register(Arc::clone(&self.shared))
    }

    /// Watches over a wait that was put on the compute stream.
    pub(super) fn expect(&self, wait: StreamWait) {
        self.shared.lock().waits.push_back(wait);
    }

    /// Waits until all that the compute stream waits for is complete.
    pub(super) fn settle(&self) -> Result<(), CommError> {
        let mut spin = Spin::default();
        loop {
            let mut state = self.shared.lock();
            if let Some(cause) = &state.cause {
                return Err(cause.clone());
            }
            let found = state.advance();
            let is_over = state.waits.is_empty();
            drop(state);
            match found {
                Some(error) => return Err(self.fail(error)),
                None if is_over => return self.shared.look().map_or(Ok(()), |error| Err(self.fail(error))),
                None if spin.turn() => {}
                None => thread::sleep(PAUSE),
            }
        }
    }

    /// From here on, a communicator is aborted when a peer of it has left for a while: it will not be left together.
    pub(super) fn begin_close(&self) {
        let n = self.shared.communicators.len();
        self.shared.lock().left_at = Some(vec![None; n]);
        self.shared.changed.notify_all();
    }
}

/// Where launches are entered, so that what is complete stays complete: after an abort it cannot be told any more from what was
/// aborted.
#[derive(Debug)]
pub(super) struct Register(Arc<Shared>);

impl Register {
    /// Something was launched.
    pub(super) fn enter(&self, launch: u64, event: Event) {
        self.0.lock().open.insert(launch, event);
    }

    /// Nobody will ask for it any more.
    pub(super) fn strike(&self, launch: u64) {
        self.0.lock().open.remove(&launch);
    }

    /// Whether it was complete before everything was aborted.
    pub(super) fn was_complete(&self, launch: u64) -> bool {
        self.0.lock().complete.contains(&launch)
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic over there was reported by the thread itself.
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// A thread that panicked while it held the lock leaves a state that is still whole: every change is one move.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread's life.
    fn watch(&self) {
        let mut state = self.lock();
        while !state.stop {
            if state.cause.is_none() {
                let late = state.advance();
                let closing = state.left_at.take();
                drop(state);
                if let Some(error) = late.or_else(|| self.look()) {
                    self.fail(error);
                }
                let closing = closing.map(|left_at| self.see_off(left_at));
                state = self.lock();
                state.left_at = closing.or_else(|| state.left_at.take());
                if state.stop {
                    return;
                }
            }
            state = self.changed.wait_timeout(state, INTERVAL).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Why it cannot go on, as far as it shows on the communicators and at the alarm.
    fn look(&self) -> Option<CommError> {
        if let Some(loss) = self.alarm.loss() {
            return Some(loss.into());
        }
        self.communicators.iter().find_map(|(of, handle)| match handle.status() {
            CommStatus::Failed(error) => Some(CommError::Nccl { of: of.clone(), error }),
            CommStatus::Ready | CommStatus::InProgress | CommStatus::Aborted => None,
        })
    }

    /// Aborts the communicators that a peer has left some time ago.
    fn see_off(&self, mut left_at: Vec<Option<Instant>>) -> Vec<Option<Instant>> {
        for ((of, handle), left_at) in self.communicators.iter().zip(&mut left_at) {
            let concerns = |channel: &Channel| match of {
                Communicator::Channel(own) => own == channel,
                Communicator::All { .. } => true,
                Communicator::Group { ranks, .. } => {
                    ranks.contains(&channel.source) && ranks.contains(&channel.destination)
                }
            };
            let mut eyes = self.eyes.iter().filter(|(channel, _)| concerns(channel));
            if left_at.is_none() && eyes.any(|(_, eye)| eye.fault().is_some()) {
                *left_at = Some(Instant::now());
            }
            if left_at.is_some_and(|at| at.elapsed() > UNSETTLED) {
                handle.abort();
            }
        }
        left_at
    }

    fn fail(&self, error: CommError) -> CommError {
        match &mut self.lock().cause {
            // NCCL may notice the wrong message too, but only the note says which it is.
            Some(cause @ CommError::Nccl { .. }) if is_of_message(&error) => {
                *cause = error;
                return cause.clone();
            }
            Some(cause) => return cause.clone(),
            None => {}
        }
        let error = self.blamed(error);
        let mut state = self.lock();
        if state.cause.is_none() {
            let is_complete = |event: &Event| matches!(event.is_complete(), Ok(true));
            state.complete =
                state.open.iter().filter(|(_, event)| is_complete(event)).map(|(&launch, _)| launch).collect();
        }
        let cause = state.cause.get_or_insert(error).clone();
        drop(state);
        // All at once: NCCL may let go of one only once kernels of the others have ended.
        AbortHandle::abort_all(self.communicators.iter().map(|(_, handle)| handle));
        self.changed.notify_all();
        cause
    }

    /// What NCCL says when a peer is gone is less than what the host and the links say.
    fn blamed(&self, error: CommError) -> CommError {
        match error {
            CommError::Nccl { error: NcclError::Misuse { .. }, .. } => error,
            CommError::Nccl { .. } => match self.alarm.wait(Deadline::after(GRACE)) {
                Some(loss) => loss.into(),
                None => self.eyes.iter().find_map(|(_, eye)| eye.fault()).unwrap_or(error),
            },
            error => error,
        }
    }
}

/// Whether an error is about what a message turned out to be.
const fn is_of_message(error: &CommError) -> bool {
    use CommError::{Malformed, OutOfTurn, WrongBoundary, WrongMessage};
    matches!(error, WrongMessage { .. } | WrongBoundary { .. } | OutOfTurn { .. } | Malformed { .. })
}

impl State {
    /// Lets go of the waits that are over; gives what is wrong with the first that is not.
    fn advance(&mut self) -> Option<CommError> {
        while let Some(wait) = self.waits.front() {
            let failed = |error| Some(CommError::Nccl { of: wait.of.clone(), error });
            match wait.done.is_complete() {
                Err(error) => return failed(error),
                Ok(true) => {
                    self.waits.pop_front();
                    self.reached_at = None;
                    continue;
                }
                Ok(false) => {}
            }
            match wait.reached.is_complete() {
                Err(error) => return failed(error),
                Ok(false) => return None,
                Ok(true) => {}
            }
            let since = *self.reached_at.get_or_insert_with(Instant::now);
            return (since.elapsed() > wait.limit).then(|| wait.late.clone());
        }
        None
    }
}
