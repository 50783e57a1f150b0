//! Operations that are launched together.

use std::sync::Arc;
use std::time::Duration;

use crate::comm::Comm;
use crate::error::NcclError;
use crate::in_flight::InFlight;
use crate::kinds::{DataType, ReduceOp};
use crate::memory::DeviceMemory;
use crate::stream::Stream;

/// Memory that an operation is to use: all of it, as elements of a type. Its length must be that of the operation.
pub type Shared = Arc<dyn DeviceMemory>;

/// Operations to be launched together, on one stream: none waits for another of the group. It owns its buffers, and what it
/// becomes does until they are done with; nothing is launched before [`Group::launch`].
#[derive(Debug, Default)]
#[must_use = "nothing happens before it is launched"]
pub struct Group<'a> {
    operations: Vec<&'a Comm>,
}

impl<'a> Group<'a> {
    /// Without operations.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sends all of `buffer` to a rank, which must receive as much of the same type. To itself only beside the receive.
    ///
    /// # Errors
    /// [`NcclError::Misuse`], as all of these: a peer that does not exist, a length that does not fit.
    pub fn send(&mut self, comm: &'a Comm, buffer: Shared, dtype: DataType, peer: usize) -> Result<(), NcclError> {
        todo!("{comm:?} {buffer:?} {dtype:?} {peer}")
    }

    /// Receives into all of `buffer`.
    ///
    /// # Errors
    /// [`NcclError::Misuse`].
    pub fn recv(&mut self, comm: &'a Comm, buffer: Shared, dtype: DataType, peer: usize) -> Result<(), NcclError> {
        todo!("{comm:?} {buffer:?} {dtype:?} {peer}")
    }

    /// Reduces all ranks' `send` into every rank's `recv`, which may be the same memory.
    ///
    /// # Errors
    /// [`NcclError::Misuse`].
    pub fn all_reduce(
        &mut self,
        comm: &'a Comm,
        send: Shared,
        recv: Shared,
        dtype: DataType,
        op: ReduceOp,
    ) -> Result<(), NcclError> {
        todo!("{comm:?} {send:?} {recv:?} {dtype:?} {op:?}")
    }

    /// Puts all ranks' `send`, of one length, one after the other into every rank's `recv`.
    ///
    /// # Errors
    /// [`NcclError::Misuse`].
    pub fn all_gather(&mut self, comm: &'a Comm, send: Shared, recv: Shared, dtype: DataType) -> Result<(), NcclError> {
        todo!("{comm:?} {send:?} {recv:?} {dtype:?}")
    }

    /// Reduces all ranks' `send`, and gives each rank its part of the result, all of one length.
    ///
    /// # Errors
    /// [`NcclError::Misuse`].
    pub fn reduce_scatter(
        &mut self,
        comm: &'a Comm,
        send: Shared,
        recv: Shared,
        dtype: DataType,
        op: ReduceOp,
    ) -> Result<(), NcclError> {
        todo!("{comm:?} {send:?} {recv:?} {dtype:?} {op:?}")
    }

    /// Copies rank `root`'s `buffer` into every rank's.
    ///
    /// # Errors
    /// [`NcclError::Misuse`].
    pub fn broadcast(&mut self, comm: &'a Comm, buffer: Shared, dtype: DataType, root: usize) -> Result<(), NcclError> {
        todo!("{comm:?} {buffer:?} {dtype:?} {root}")
    }

    /// Puts them on the stream. Waits only for the host's part of it, for at most `limit`.
    ///
    /// # Errors
    /// [`NcclError::Aborted`], [`NcclError::Deadline`], or what NCCL says. None of it is complete then, and its communicators
    /// can only be aborted.
    pub fn launch(self, stream: &Stream, limit: Duration) -> Result<InFlight, NcclError> {
        todo!("{stream:?} {limit:?}")
    }
}
