//! One end of one channel between processes, moved on by whoever needs it.
//!
//! - **The poster** writes a small message itself, and tells the source of every receive.
//! - **A waiter** moves its own link on: it spins for a short while, then sleeps until the pipe may have moved, and looks at the
//!   alarm and the deadline every time it wakes.
//! - **The helper**, a thread that is started when it is needed for the first time, moves on what is posted and not waited for,
//!   so that transfers go on while the rank computes. It stands back while the rank itself attends to the link.

mod core;
mod receiving;
mod sending;

use std::io;
#[cfg(feature = "nccl")]
use std::sync::TryLockError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use pp_schedule::{Channel, Role};

use self::core::Core;
use crate::alarm::Alarm;
use crate::deadline::Deadline;
use crate::endpoint::pipe::{Parker, Pipe};
use crate::endpoint::spin::Spin;
use crate::error::{CommError, role_name};
use crate::message::{Boundary, Buffer, Label};

/// A message up to this size is written by whoever posts it; a larger one would keep the rank from computing.
const INLINE_BYTES: usize = 128 * 1024;

/// The helper lets others have the link after about so many bytes.
const HELPING: usize = 256 * 1024;

/// The longest sleep. The alarm over a connection, and the death of a peer beside a ring, show at the end of one.
const NAP: Duration = Duration::from_millis(20);

/// How long a link is lingered on that has sends which never completed.
const UNSETTLED: Duration = Duration::from_secs(1);

/// Pause between two looks at what a connection still holds.
const LINGER: Duration = Duration::from_micros(200);

/// One end of one channel.
#[derive(Debug)]
pub(super) struct Link {
    shared: Arc<Shared>,
    role: Role,
    helper: Option<JoinHandle<()>>,
}

/// What the helper needs too.
#[derive(Debug)]
struct Shared {
    channel: Channel,
    core: Mutex<Core>,
    /// The helper waits for this.
    called: Condvar,
    /// The rank itself is at it.
    attended: AtomicBool,
    parker: Parker,
    alarm: Alarm,
}

impl Link {
    /// Takes over a pipe.
    pub(super) fn new(channel: Channel, role: Role, pipe: Pipe, alarm: &Alarm) -> io::Result<Self> {
        let (parker, core) = (pipe.parker(), Mutex::new(Core::new(channel, role, pipe)?));
        let attended = AtomicBool::new(false);
        let shared = Shared { channel, core, called: Condvar::new(), attended, parker, alarm: alarm.clone() };
        let shared = Arc::new(shared);
        let waked = Arc::downgrade(&shared);
        alarm.on_ring(move || waked.upgrade().iter().for_each(|shared| shared.parker.wake()));
        Ok(Self { shared, role, helper: None })
    }

    /// What it goes over, for reports.
    pub(super) fn name(&self) -> &'static str {
        self.shared.lock().name()
    }

    /// A look at the link for another thread.
    #[cfg(feature = "nccl")]
    pub(super) fn eye(&self) -> Eye {
        Eye(Arc::clone(&self.shared))
    }

    #[cfg(test)]
    pub(super) fn n_held(&self) -> usize {
        self.shared.lock().n_held()
    }

    #[cfg(test)]
    pub(super) fn n_to_write(&self) -> usize {
        self.shared.lock().n_to_write()
    }

    /// Starts a send; gives its number.
    pub(super) fn post_send(&mut self, label: Label, buffer: Buffer) -> Result<u64, CommError> {
        self.post(|core| {
            let number = core.post_send(label, buffer);
            if core.n_to_write() <= INLINE_BYTES {
                core.advance(INLINE_BYTES);
            }
            number
        })
    }

    /// Starts a receive; gives its number.
    pub(super) fn post_recv(
        &mut self,
        label: Label,
        boundary: Boundary,
        memory: Option<Buffer>,
    ) -> Result<u64, CommError> {
        self.post(|core| core.post_recv(label, boundary, memory))
    }

    fn post(&mut self, post: impl FnOnce(&mut Core) -> Option<u64>) -> Result<u64, CommError> {
        let shared = Arc::clone(&self.shared);
        let mut core = shared.attend();
        // A loss elsewhere shows to whoever waits; only a link that has failed itself takes nothing more.
        if core.has_failed()
            && let Some(fault) = core.fault(&shared.alarm)
        {
            return Err(fault);
        }
        let number = post(&mut core);
        self.leave(core)?;
        number.ok_or_else(|| CommError::System {
            what: "post".to_owned(),
            reason: "the link goes the other way".to_owned(),
        })
    }

    /// Waits until a transfer is complete; gives its buffer, or none when the deadline passes first.
    pub(super) fn wait(&mut self, number: u64, limit: Duration) -> Result<Option<Buffer>, CommError> {
        let shared = Arc::clone(&self.shared);
        let mut core = shared.attend();
        let done = shared.wait(&mut core, number, Deadline::after(limit));
        self.leave(core)?;
        done
    }

    /// Whether a wait would end at once. Moves the link on, but does not wait.
    pub(super) fn has_ended(&mut self, number: u64) -> Result<bool, CommError> {
        let shared = Arc::clone(&self.shared);
        let mut core = shared.attend();
        if !core.advance(HELPING) {
            core.look_for_end();
        }
        let ended = core.has(number) || core.fault(&shared.alarm).is_some();
        self.leave(core)?;
        Ok(ended)
    }

    /// Nobody will wait for this transfer.
    pub(super) fn abandon(&self, number: u64) {
        self.shared.lock().abandon(number);
    }

    /// Leaves the link to the helper, which is called if there is something to do for it.
    fn leave(&mut self, core: MutexGuard<'_, Core>) -> Result<(), CommError> {
        let shared = &self.shared;
        shared.attended.store(false, Ordering::Relaxed);
        let needed = core.needs_a_hand();
        drop(core);
        if !needed {
            return Ok(());
        }
        shared.called.notify_one();
        if self.helper.is_none() {
            let Channel { source, destination, queue, .. } = shared.channel;
            let name = format!("{} {source}>{destination} {queue}", role_name(self.role));
            let (shared, channel) = (Arc::clone(shared), shared.channel);
            let helper = thread::Builder::new().name(name).spawn(move || shared.help());
            self.helper = Some(helper.map_err(|error| CommError::System {
                what: format!("start the thread for the {channel}"),
                reason: error.to_string(),
            })?);
        }
        Ok(())
    }

    /// Ends the sending in good order, so that all that was posted and is asked for arrives whatever becomes of this end.
    ///
    /// The destination may still tell of receives that nothing is sent for. On a connection that is closed already, such a
    /// word would have the system throw away what is still on its way there; so this waits until nothing is, for at most
    /// `limit`, or [`UNSETTLED`] where a send was given up: what is on its way may then be something that nobody will read.
    pub(super) fn linger(&self, limit: Duration) {
        if self.role != Role::Send {
            return;
        }
        let mut core = self.shared.attend();
        let limit = Deadline::after(limit);
        self.shared.see_off(&mut core, limit);
        let deadline = if core.is_settled() { limit } else { limit.at_most(UNSETTLED) };
        while !self.shared.alarm.has_rung() && core.pipe().still_sending() {
            let Some(left) = deadline.remaining() else { return };
            thread::sleep(LINGER.min(left));
        }
    }

    /// Ends the link for the peer, and has the helper end. Does not wait for it: [`Link::drop`] does.
    pub(super) fn end(&self) {
        self.shared.attend().stop = true;
        self.shared.called.notify_one();
        self.shared.parker.end();
    }
}

/// Sees whether a link can go on, from any thread.
#[cfg(feature = "nccl")]
#[derive(Debug)]
pub(super) struct Eye(Arc<Shared>);

#[cfg(feature = "nccl")]
impl Eye {
    /// Why it cannot, if that is so. Does not wait: while somebody else is at the link, that one sees.
    pub(super) fn fault(&self) -> Option<CommError> {
        let core = match self.0.core.try_lock() {
            Ok(core) => core,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        core.foreseen_fault(&self.0.alarm)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.end();
        if let Some(helper) = self.helper.take() {
            // A panic over there was reported by the thread itself.
            let _ = helper.join();
        }
    }
}

impl Shared {
    /// A thread that panicked while it held the lock has lost its link, not the run: what is wrong with it shows to whoever
    /// waits.
    fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the link over from the helper, which lets go after at most [`HELPING`] bytes.
    fn attend(&self) -> MutexGuard<'_, Core> {
        self.attended.store(true, Ordering::Relaxed);
        self.lock()
    }

    /// A waiter's part.
    fn wait(&self, core: &mut Core, number: u64, deadline: Deadline) -> Result<Option<Buffer>, CommError> {
        let mut spin = Spin::default();
        let look = |core: &mut Core| {
            let moved = core.advance(usize::MAX);
            // What is complete stays complete, whoever is gone by now.
            let found = core.take(number).map(Ok).or_else(|| core.fault(&self.alarm).map(Err));
            (moved, found)
        };
        loop {
            let (moved, found) = look(core);
            if let Some(found) = found {
                return found.map(Some);
            }
            if moved {
                spin.restart();
            } else if self.parker.is_worth_spinning(core.interest()) && spin.turn() {
                continue;
            }
            // A peer that drips for ever ends here too.
            let Some(left) = deadline.remaining() else { return Ok(None) };
            if moved {
                continue;
            }
            let armed = self.parker.arm();
            core.look_for_end();
            let (moved, found) = look(core);
            if let Some(found) = found {
                return found.map(Some);
            }
            if !moved {
                self.parker.park(armed, core.interest(), NAP.min(left));
            }
        }
    }

    /// Writes all that was posted, as nobody else will: up to the limit what the peer asks for, but what it does not only
    /// until nothing has moved for [`UNSETTLED`].
    fn see_off(&self, core: &mut Core, limit: Deadline) {
        let mut patience = limit.at_most(UNSETTLED);
        while core.n_to_write() > 0 && !core.has_failed() && !self.alarm.has_rung() {
            let armed = self.parker.arm();
            let moved = core.advance(HELPING);
            if moved || core.is_awaited() {
                patience = limit.at_most(UNSETTLED);
            }
            let Some(left) = patience.remaining() else { return };
            if !moved {
                core.look_for_end();
                self.parker.park(armed, core.interest(), NAP.min(left));
            }
        }
    }

    /// The life of the helper.
    fn help(&self) {
        let mut core = self.lock();
        loop {
            while !core.stop && !self.is_left_to_the_helper(&core) {
                core = self.called.wait(core).unwrap_or_else(PoisonError::into_inner);
            }
            if core.stop {
                return;
            }
            if !core.advance(HELPING) {
                let armed = self.parker.arm();
                core.look_for_end();
                if !core.advance(HELPING) {
                    let interest = core.interest();
                    drop(core);
                    self.parker.park(armed, interest, NAP);
                    core = self.lock();
                    continue;
                }
            }
            // Whoever wants the link gets it in between.
            drop(core);
            core = self.lock();
        }
    }

    fn is_left_to_the_helper(&self, core: &Core) -> bool {
        !self.attended.load(Ordering::Relaxed) && !self.alarm.has_rung() && core.needs_a_hand()
    }
}
