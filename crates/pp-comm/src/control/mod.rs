//! What all ranks do together beside the program: wait for each other, and exchange small values in rank order.

mod memory;
mod server;
mod socket;

use std::marker::PhantomData;
use std::time::Duration;

use pp_schedule::Rank;

use crate::error::{Collective, CommError};
use crate::flight::{Recorder, State, Subject};

pub(crate) use memory::MemoryControl;
pub(crate) use server::{Connection, serve};
pub(crate) use socket::SocketControl;

/// The most bytes one rank may give to an all-gather (1 GiB).
pub const MAX_COLLECTIVE_BYTES: u64 = 1 << 30;

/// A rank's part in the run's collectives.
///
/// All ranks must call the same ones in the same order. To leave in good order, call [`Control::close`]; dropped
/// without that, the rank counts as lost.
#[derive(Debug)]
pub struct Control {
    n_ranks: u32,
    deadline: Duration,
    /// The number of the next collective.
    round: u64,
    recorder: Recorder,
    transport: Transport,
    one_thread: PhantomData<*const ()>,
}

#[derive(Debug)]
enum Transport {
    Memory(MemoryControl),
    Socket(SocketControl),
}

impl Control {
    pub(crate) fn memory(n_ranks: u32, deadline: Duration, recorder: Recorder, transport: MemoryControl) -> Self {
        Self::new(n_ranks, deadline, recorder, Transport::Memory(transport))
    }

    pub(crate) fn socket(n_ranks: u32, deadline: Duration, recorder: Recorder, transport: SocketControl) -> Self {
        Self::new(n_ranks, deadline, recorder, Transport::Socket(transport))
    }

    fn new(n_ranks: u32, deadline: Duration, recorder: Recorder, transport: Transport) -> Self {
        Self { n_ranks, deadline, round: 0, recorder, transport, one_thread: PhantomData }
    }

    /// The rank it belongs to.
    pub fn rank(&self) -> Rank {
        self.recorder.rank()
    }

    /// How many ranks there are.
    pub const fn n_ranks(&self) -> u32 {
        self.n_ranks
    }

    /// Waits until every rank is here.
    ///
    /// # Errors
    /// [`CommError::PeerLost`], [`CommError::CollectiveDeadline`], [`CommError::CollectiveMismatch`].
    pub fn barrier(&mut self) -> Result<(), CommError> {
        self.collective(Collective::Barrier, &[]).map(drop)
    }

    /// Gives bytes to every rank and gets what each gave, in rank order; sizes may differ.
    ///
    /// # Errors
    /// As [`Control::barrier`], and [`CommError::CollectiveTooLarge`].
    pub fn all_gather(&mut self, part: &[u8]) -> Result<Vec<Vec<u8>>, CommError> {
        let n_bytes = part.len() as u64;
        if n_bytes > MAX_COLLECTIVE_BYTES {
            return Err(CommError::CollectiveTooLarge { n_bytes, limit: MAX_COLLECTIVE_BYTES });
        }
        self.collective(Collective::AllGather, part)
    }

    /// [`Control::all_gather`] of `f64` values, such as partial sums to be added in rank order.
    ///
    /// # Errors
    /// As [`Control::all_gather`].
    pub fn all_gather_f64(&mut self, part: &[f64]) -> Result<Vec<Vec<f64>>, CommError> {
        let parts = self.all_gather(bytemuck::cast_slice(part))?;
        Ok(parts.iter().map(|part| bytemuck::pod_collect_to_vec(part)).collect())
    }

    /// [`Control::all_gather`] of `f32` values, such as a tied weight's gradient.
    ///
    /// # Errors
    /// As [`Control::all_gather`].
    pub fn all_gather_f32(&mut self, part: &[f32]) -> Result<Vec<Vec<f32>>, CommError> {
        let parts = self.all_gather(bytemuck::cast_slice(part))?;
        Ok(parts.iter().map(|part| bytemuck::pod_collect_to_vec(part)).collect())
    }

    /// Leaves in good order. A collective that others start after that fails for them.
    pub fn close(self) {
        match self.transport {
            Transport::Memory(memory) => memory.close(),
            Transport::Socket(socket) => socket.close(),
        }
    }

    fn collective(&mut self, collective: Collective, part: &[u8]) -> Result<Vec<Vec<u8>>, CommError> {
        let round = self.round;
        self.round += 1;
        let (subject, n_bytes) = (Subject::Collective { collective, group: None, round }, part.len() as u64);
        self.recorder.note(subject, State::Begun, n_bytes);
        let done = match &mut self.transport {
            Transport::Memory(memory) => memory.collective(round, collective, part, self.deadline),
            Transport::Socket(socket) => socket.collective(round, collective, part, self.deadline),
        };
        self.recorder.note(subject, if done.is_ok() { State::Done } else { State::Failed }, n_bytes);
        done
    }
}
