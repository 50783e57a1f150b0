//! A communicator.

use std::ffi::c_int;
use std::sync::Arc;
use std::time::Duration;

use cudarc::nccl::sys::{ncclComm_t, ncclConfig_t};

use crate::config::{CommConfig, RawConfig};
use crate::device::Device;
use crate::error::NcclError;
use crate::id::UniqueId;
use crate::library::Nccl;
use crate::making::Making;
use crate::poll::Wait;
use crate::state::{CommStatus, State};

/// `NCCL_SPLIT_NOCOLOR`.
const NO_COLOR: c_int = -1;

/// One rank's part in a communicator. Never blocks without a deadline; dropped without [`Comm::finalize`], it is aborted.
#[derive(Debug)]
pub struct Comm {
    state: Arc<State>,
}

impl Comm {
    /// Joins `n_ranks` ranks as `rank`; all must do so with the same id. Waits for them, for at most `limit`.
    ///
    /// # Errors
    /// [`NcclError::Misuse`]: a rank that does not exist, a context that is not the GPU's primary one. [`NcclError::Deadline`], or
    /// what NCCL says. What was begun is aborted.
    pub fn init(
        device: &Device,
        id: UniqueId,
        n_ranks: usize,
        rank: usize,
        config: &CommConfig,
        limit: Duration,
    ) -> Result<Self, NcclError> {
        const CALL: &str = "ncclCommInitRankConfig";
        let (n_ranks_raw, rank_raw) = ranks(CALL, n_ranks, rank)?;
        if !device.context().is_primary() {
            // It would launch there what is given to a default stream, and an event of this context would not wait for it.
            let reason =
                "NCCL works in the primary context of a GPU, and this is another; `Device::new` gives the primary one";
            return Err(NcclError::Misuse { call: CALL, reason: reason.to_string() });
        }
        let nccl = Nccl::get()?;
        let init = nccl.comm_init_rank_config()?;
        let mut wait = Wait::new(CALL, limit);
        let mut making = Making::new(nccl, device, RawConfig::new(CALL, config, nccl.version())?);
        device.bind()?;
        let (comm, config) = making.arguments();
        // SAFETY: both point to what `making` keeps, for ever if NCCL may still use it; the id is passed by value. The context of
        // the device is current.
        let code = unsafe { init(comm, n_ranks_raw, id.raw(), rank_raw, config) };
        nccl.check(CALL, code)?;
        let (comm, names) = making.finish(CALL, &mut wait)?;
        Ok(Self { state: Arc::new(State::new(nccl, device.clone(), n_ranks, rank, comm, names)) })
    }

    /// How many ranks.
    pub fn n_ranks(&self) -> usize {
        self.state.n_ranks
    }

    /// This rank.
    pub fn rank(&self) -> usize {
        self.state.rank
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.state.device
    }

    /// How it is. Does not wait.
    pub fn status(&self) -> CommStatus {
        self.state.status()
    }

    /// What can abort it from any thread, such as a watchdog's.
    pub fn abort_handle(&self) -> AbortHandle {
        AbortHandle { state: self.state.clone() }
    }

    /// Divides the ranks: those that give one color make a communicator together, ordered by key and, among equal keys, by rank;
    /// with `None` this rank is in none. All ranks must call it. Since NCCL 2.18.
    ///
    /// # Errors
    /// As [`Comm::init`]; on all but [`NcclError::Misuse`] and [`NcclError::TooOld`] this communicator is aborted too: the other
    /// ranks' part of it cannot be undone.
    pub fn split(
        &self,
        color: Option<u32>,
        key: i32,
        config: &CommConfig,
        limit: Duration,
    ) -> Result<Option<Self>, NcclError> {
        const CALL: &str = "ncclCommSplit";
        let nccl = self.state.nccl;
        let split = nccl.comm_split()?;
        let color_raw = color.map_or(Ok(NO_COLOR), |color| {
            c_int::try_from(color).map_err(|_| NcclError::Misuse {
                call: CALL,
                reason: format!("the color is {color}, but at most {} can be", c_int::MAX),
            })
        })?;
        let making = Making::new(nccl, self.device(), RawConfig::new(CALL, config, nccl.version())?);
        let mut wait = Wait::new(CALL, limit);
        let result = self.split_with(CALL, making, &mut wait, color.is_some(), |comm, made, config| {
            // SAFETY: the communicator exists and its lock is held; the others point to what `making` keeps, for ever if NCCL may
            // still use it. Called once: `State::call` makes no second call after one that was taken.
            unsafe { split(comm, color_raw, key, made, config) }
        });
        if result.is_err() {
            self.state.abort();
        }
        result
    }

    fn split_with(
        &self,
        call: &'static str,
        mut making: Making,
        wait: &mut Wait,
        is_in_one: bool,
        split: impl Fn(ncclComm_t, *mut ncclComm_t, *mut ncclConfig_t) -> c_int,
    ) -> Result<Option<Self>, NcclError> {
        let State { nccl, ref device, .. } = *self.state;
        device.bind()?;
        let (made, config) = making.arguments();
        self.state.call(call, wait, |comm| split(comm, made, config))?;
        // The part of it that is this communicator's: what is made is there only then.
        if let Err(error) = self.state.settle(call, wait) {
            // Before what is made is looked at, so that NCCL is done with it.
            self.state.abort();
            return Err(error);
        }
        if !is_in_one {
            // SAFETY: the communicator that was divided is ready again: the split is done.
            unsafe { making.forget_nothing_made() };
            return Ok(None);
        }
        let (comm, names) = making.finish(call, wait)?;
        // SAFETY: it was just made, and no one else knows of it.
        let numbers = unsafe { nccl.place_in(comm.raw()) };
        // Made first: its drop aborts it also where the numbers are not to be had.
        let (n_ranks, rank) = *numbers.as_ref().unwrap_or(&(1, 0));
        let made = Self { state: Arc::new(State::new(nccl, device.clone(), n_ranks, rank, comm, names)) };
        numbers.map(|_| Some(made))
    }

    /// Leaves in good order once all that was launched is done, for at most `limit`; aborts it otherwise.
    ///
    /// # Errors
    /// [`NcclError::Deadline`], or what NCCL says.
    pub fn finalize(self, limit: Duration) -> Result<(), NcclError> {
        // On an error it is aborted as it is dropped.
        self.state.finalize(&mut Wait::new("ncclCommFinalize", limit))
    }

    pub(crate) const fn state(&self) -> &Arc<State> {
        &self.state
    }
}

/// Aborts: a communicator that is still live was not finalized.
impl Drop for Comm {
    fn drop(&mut self) {
        self.state.abort();
    }
}

/// Aborts a communicator from any thread. Does nothing once it is gone.
#[derive(Clone, Debug)]
pub struct AbortHandle {
    state: Arc<State>,
}

impl AbortHandle {
    /// What is under way ends, undone. Idempotent. Returns once NCCL has let go of the communicator, after 2 seconds at most:
    /// it goes on by itself; or at once if another thread is already ending it.
    ///
    /// Of several communicators at once: [`AbortHandle::abort_all`].
    pub fn abort(&self) {
        self.state.abort();
    }

    /// Aborts several communicators at once, with one wait for all. NCCL may let go of one only once kernels of the others have
    /// ended, so that aborting them one after the other may take that wait for each.
    pub fn abort_all<'a>(handles: impl IntoIterator<Item = &'a Self>) {
        State::abort_all(handles.into_iter().map(|handle| &handle.state));
    }

    /// As [`Comm::status`]; [`CommStatus::Aborted`] also once the communicator is gone.
    pub fn status(&self) -> CommStatus {
        self.state.status()
    }
}

/// The ranks as NCCL takes them.
fn ranks(call: &'static str, n_ranks: usize, rank: usize) -> Result<(c_int, c_int), NcclError> {
    let n_ranks_raw = c_int::try_from(n_ranks).ok().filter(|n_ranks| *n_ranks > 0);
    let n_ranks_raw = n_ranks_raw.ok_or_else(|| NcclError::Misuse {
        call,
        reason: format!("{n_ranks} ranks were asked for, but there can be 1 to {}", c_int::MAX),
    })?;
    if rank >= n_ranks {
        let reason = format!("rank {rank} of {n_ranks} does not exist: the last is {}", n_ranks - 1);
        return Err(NcclError::Misuse { call, reason });
    }
    // It is less than what fits.
    Ok((n_ranks_raw, rank as c_int))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_that_cannot_be_are_refused() {
        assert_eq!(ranks("f", 4, 3), Ok((4, 3)));
        let reason = |n_ranks, rank| ranks("f", n_ranks, rank).unwrap_err().to_string();
        assert_eq!(reason(0, 0), "f: 0 ranks were asked for, but there can be 1 to 2147483647");
        assert_eq!(reason(4, 4), "f: rank 4 of 4 does not exist: the last is 3");
        assert_eq!(reason(1 << 40, 0), "f: 1099511627776 ranks were asked for, but there can be 1 to 2147483647");
    }
}
