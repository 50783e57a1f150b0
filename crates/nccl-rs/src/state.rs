//! What a communicator, its abort handles and its operations share.
//!
//! NCCL's calls on one communicator must not run at once, so each is made under the communicator's lock, held for that call
//! alone: none of them blocks. Whoever takes the handle out of the lock to abort or to destroy it is the last to use it.

use std::ffi::{CString, c_int};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cudarc::nccl::sys::ncclComm_t;

use crate::device::Device;
use crate::ending::Ending;
use crate::error::NcclError;
use crate::library::{IN_PROGRESS, Nccl, SUCCESS};
use crate::poll::Wait;

/// For how long an abort waits for NCCL to let go; it goes on by itself.
pub(crate) const ABORT_WAIT: Duration = Duration::from_secs(2);

/// How a communicator is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommStatus {
    /// Nothing is under way on the host, and nothing has failed.
    Ready,
    /// An earlier call is not done.
    InProgress,
    /// It was aborted.
    Aborted,
    /// It failed, maybe because of another rank.
    Failed(NcclError),
}

/// NCCL's handle of a communicator that exists.
#[derive(Clone, Copy)]
pub(crate) struct RawComm(ncclComm_t);

// SAFETY: NCCL ties a communicator to no thread; calls on it must not run at once, for which there is the lock.
unsafe impl Send for RawComm {}

impl RawComm {
    /// # Safety
    /// It is a communicator that exists, and the one copy of its handle.
    pub(crate) const unsafe fn new(raw: ncclComm_t) -> Self {
        Self(raw)
    }

    pub(crate) const fn raw(self) -> ncclComm_t {
        self.0
    }
}

/// Where the handle is in its life.
pub(crate) enum Handle {
    Live(RawComm),
    /// Being aborted or destroyed by a thread, which alone knows the handle now.
    Leaving(End),
    Gone(End),
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Aborted,
    /// All that was launched is done.
    Finalized,
}

pub(crate) struct State {
    pub(crate) nccl: &'static Nccl,
    pub(crate) device: Device,
    pub(crate) n_ranks: usize,
    pub(crate) rank: usize,
    /// Its own in the process: groups lock communicators in the order of these.
    pub(crate) number: u64,
    handle: Mutex<Handle>,
    /// NCCL may look at the strings of a configuration for as long as the communicator lives.
    _names: Vec<CString>,
}

impl State {
    pub(crate) fn new(
        nccl: &'static Nccl,
        device: Device,
        n_ranks: usize,
        rank: usize,
        raw: RawComm,
        names: Vec<CString>,
    ) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self { nccl, device, n_ranks, rank, number, handle: Mutex::new(Handle::Live(raw)), _names: names }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Handle> {
        self.handle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the calls made so far are done on the host. Does not wait.
    pub(crate) fn is_ready(&self, call: &'static str) -> Result<bool, NcclError> {
        self.is_ready_locked(&self.lock(), call)
    }

    /// The same, under a lock that the caller has.
    pub(crate) fn is_ready_locked(&self, handle: &Handle, call: &'static str) -> Result<bool, NcclError> {
        let Handle::Live(comm) = handle else { return Err(NcclError::Aborted { call }) };
        // SAFETY: the communicator exists while its handle is live, and the lock keeps others away.
        unsafe { self.nccl.is_ready(call, comm.raw()) }
    }

    /// Waits until it is ready.
    pub(crate) fn settle(&self, call: &'static str, wait: &mut Wait) -> Result<(), NcclError> {
        wait.until(|| Ok(self.is_ready(call)?.then_some(())))
    }

    pub(crate) fn status(&self) -> CommStatus {
        let handle = self.lock();
        if !matches!(*handle, Handle::Live(_)) {
            return CommStatus::Aborted;
        }
        match self.is_ready_locked(&handle, "ncclCommGetAsyncError") {
            Ok(true) => CommStatus::Ready,
            Ok(false) => CommStatus::InProgress,
            Err(error) => CommStatus::Failed(error),
        }
    }

    /// How it ended, where it has begun to.
    pub(crate) fn end(&self) -> Option<End> {
        match *self.lock() {
            Handle::Live(_) => None,
            Handle::Leaving(end) | Handle::Gone(end) => Some(end),
        }
    }

    /// Whether NCCL is done with it: nothing more is launched.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(*self.lock(), Handle::Gone(_))
    }

    /// Ends it, and what is under way with it; waits for NCCL to let go, but not for long. Does nothing if it has ended or is
    /// ending.
    pub(crate) fn abort(self: &Arc<Self>) {
        Self::abort_all([self]);
    }

    /// The same with several at once.
    pub(crate) fn abort_all<'a>(states: impl IntoIterator<Item = &'a Arc<Self>>) {
        let endings: Vec<_> = states.into_iter().filter_map(|state| state.begin_to_end(End::Aborted)).collect();
        let begun = Instant::now();
        for ending in endings {
            // What it answers changes nothing: the handle is no more.
            let _ = ending.wait(ABORT_WAIT.saturating_sub(begun.elapsed()));
        }
    }

    /// Waits until all that was launched is done, and leaves.
    pub(crate) fn finalize(self: &Arc<Self>, wait: &mut Wait) -> Result<(), NcclError> {
        const CALL: &str = "ncclCommFinalize";
        let finalize = self.nccl.comm_finalize()?;
        self.device.bind()?;
        self.call(CALL, wait, |comm| {
            // SAFETY: the communicator exists while its handle is live, and the lock is held.
            unsafe { finalize(comm) }
        })?;
        self.settle(CALL, wait)?;
        let ending = self.begin_to_end(End::Finalized).ok_or(NcclError::Aborted { call: CALL })?;
        let code = ending.wait(wait.left()).ok_or_else(|| wait.late())?;
        self.nccl.check("ncclCommDestroy", code)
    }

    /// Has a thread abort or destroy it. `None` if it has ended or is ending.
    fn begin_to_end(self: &Arc<Self>, end: End) -> Option<Ending> {
        let comm = self.leave(end)?;
        let (state, device) = (self.clone(), self.device.clone());
        let function = match end {
            End::Aborted => self.nccl.comm_abort,
            End::Finalized => self.nccl.comm_destroy,
        };
        let call = move || {
            // As a whole: its part is no handle that may go to another thread.
            let comm: RawComm = comm;
            // NCCL makes the device current itself where it needs it; without a context it still frees what the host has.
            let _ = device.bind();
            // SAFETY: the handle was taken out of the lock, so that this is its only use from now on. It may be aborted at any
            // time, and is destroyed only after it was finalized.
            unsafe { function(comm.raw()) }
        };
        Some(Ending::begin(call, move || *state.lock() = Handle::Gone(end)))
    }

    /// Makes a call that does not block, once nothing is under way: another thread may be using the communicator too.
    pub(crate) fn call(
        &self,
        call: &'static str,
        wait: &mut Wait,
        make: impl Fn(ncclComm_t) -> c_int,
    ) -> Result<(), NcclError> {
        wait.until(|| {
            let handle = self.lock();
            if !self.is_ready_locked(&handle, call)? {
                return Ok(None);
            }
            let Handle::Live(comm) = *handle else { return Err(NcclError::Aborted { call }) };
            match make(comm.raw()) {
                SUCCESS | IN_PROGRESS => Ok(Some(())),
                // SAFETY: the communicator exists, and the lock is held.
                code => Err(unsafe { self.nccl.error(call, code, comm.raw()) }),
            }
        })
    }

    /// Takes the handle out, for the one who gets it to end it.
    fn leave(&self, end: End) -> Option<RawComm> {
        let mut handle = self.lock();
        let Handle::Live(comm) = *handle else { return None };
        *handle = Handle::Leaving(end);
        Some(comm)
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State")
            .field("number", &self.number)
            .field("rank", &self.rank)
            .field("n_ranks", &self.n_ranks)
            .field("device", &self.device.context().ordinal())
            .finish_non_exhaustive()
    }
}
