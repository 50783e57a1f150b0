//! A communicator with the stream that its transfers run on, and what is put there.

use std::sync::Arc;
use std::time::Duration;

use nccl_rs::{Comm, DataType, DeviceMemory, Group, InFlight, NcclError, Stream};
use pp_schedule::Role;

use crate::error::{CommError, Communicator};
use crate::message::DType;

/// The longest that an event on an idle stream may take.
const MOMENT: Duration = Duration::from_millis(20);

/// A communicator and its stream. Operations of one communicator run in the order of their launches, so that a second stream
/// would gain nothing.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) of: Communicator,
    pub(super) comm: Comm,
    pub(super) stream: Stream,
}

/// One side of a message's way, to be launched.
#[derive(Debug)]
pub(super) struct Op {
    pub(super) role: Role,
    pub(super) memory: Arc<dyn DeviceMemory>,
    pub(super) dtype: DType,
    /// The other rank's place in the communicator.
    pub(super) peer: usize,
}

impl Lane {
    /// Launches transfers together, after what is on the compute stream now. Waits only for the host's part of it.
    pub(super) fn launch(&self, ops: Vec<Op>, compute: &Stream, limit: Duration) -> Result<InFlight, NcclError> {
        let mut group = Group::new();
        for Op { role, memory, dtype, peer } in ops {
            match role {
                Role::Send => group.send(&self.comm, memory, of_nccl(dtype), peer)?,
                Role::Receive => group.recv(&self.comm, memory, of_nccl(dtype), peer)?,
            }
        }
        // What is sent was made before this point, and what is received into was allocated before it.
        self.stream.wait(&compute.record()?)?;
        group.launch(&self.stream, limit)
    }

    /// Whether all that was launched is complete. An event on an idle stream takes a moment to be complete itself.
    pub(super) fn is_idle(&self) -> Result<bool, NcclError> {
        match self.stream.record()?.wait(MOMENT) {
            Ok(()) => Ok(true),
            Err(NcclError::Deadline { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// What went wrong with it, as an error between ranks.
    pub(super) fn failed(&self, error: NcclError) -> CommError {
        CommError::Nccl { of: self.of.clone(), error }
    }
}

/// A type of elements as NCCL names it.
pub(crate) const fn of_nccl(dtype: DType) -> DataType {
    match dtype {
        DType::F32 => DataType::F32,
        DType::F64 => DataType::F64,
        DType::I64 => DataType::I64,
        DType::Bf16 => DataType::Bf16,
    }
}
