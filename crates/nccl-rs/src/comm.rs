//! A communicator.

use std::time::Duration;

use crate::config::CommConfig;
use crate::device::Device;
use crate::error::NcclError;
use crate::id::UniqueId;

/// One rank's part in a communicator. Never blocks without a deadline; dropped without [`Comm::finalize`], it is aborted.
#[derive(Debug)]
pub struct Comm {}

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

impl Comm {
    /// Joins `n_ranks` ranks as `rank`; all must do so with the same id. Waits for them, for at most `limit`.
    ///
    /// # Errors
    /// [`NcclError::Deadline`], or what NCCL says. What was begun is aborted.
    pub fn init(
        device: &Device,
        id: UniqueId,
        n_ranks: usize,
        rank: usize,
        config: &CommConfig,
        limit: Duration,
    ) -> Result<Self, NcclError> {
        todo!("{device:?} {n_ranks} {rank} {config:?} {limit:?} {}", id.as_bytes().len())
    }

    /// How many ranks.
    pub fn n_ranks(&self) -> usize {
        todo!()
    }

    /// This rank.
    pub fn rank(&self) -> usize {
        todo!()
    }

    /// The device.
    pub fn device(&self) -> &Device {
        todo!()
    }

    /// How it is. Does not wait.
    pub fn status(&self) -> CommStatus {
        todo!()
    }

    /// What can abort it from any thread, such as a watchdog's.
    pub fn abort_handle(&self) -> AbortHandle {
        todo!()
    }

    /// Divides the ranks: those that give one color make a communicator together, ordered by key; with `None` this rank is in
    /// none. All ranks must call it.
    ///
    /// # Errors
    /// As [`Comm::init`].
    pub fn split(
        &self,
        color: Option<u32>,
        key: i32,
        config: &CommConfig,
        limit: Duration,
    ) -> Result<Option<Self>, NcclError> {
        todo!("{color:?} {key} {config:?} {limit:?}")
    }

    /// Leaves in good order once all that was launched is done, for at most `limit`; aborts it otherwise.
    ///
    /// # Errors
    /// [`NcclError::Deadline`], or what NCCL says.
    pub fn finalize(self, limit: Duration) -> Result<(), NcclError> {
        todo!("{limit:?}")
    }
}

/// Aborts a communicator from any thread. Does nothing once it is gone.
#[derive(Clone, Debug)]
pub struct AbortHandle {}

impl AbortHandle {
    /// What is under way ends, undone. Idempotent.
    pub fn abort(&self) {
        todo!()
    }

    /// As [`Comm::status`]; [`CommStatus::Aborted`] also once the communicator is gone.
    pub fn status(&self) -> CommStatus {
        todo!()
    }
}
