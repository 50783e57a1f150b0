//! What all ranks do together beside the program: wait for each other, and exchange small values in rank order.

mod blame;
mod ear;
mod heard;
mod memory;
mod outbox;
mod parts;
mod server;
mod socket;

use std::marker::PhantomData;
use std::time::Duration;

use pp_schedule::Rank;

use crate::collective::{Collective, Elements};
use crate::error::CommError;
use crate::flight::{Recorder, State, Subject};

pub use crate::wire::MAX_COLLECTIVE_BYTES;
pub use heard::{Heard, Watch, fuzz as fuzz_reports};
pub(crate) use memory::MemoryControl;
pub(crate) use server::{Connection, serve};
pub use socket::fuzz as fuzz_verdicts;
pub(crate) use socket::{Line, SocketControl};

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
    /// As [`Control::barrier`], [`CommError::CollectiveTooLarge`], and [`CommError::CollectiveElements`] when another rank
    /// gives `f32` or `f64` values.
    pub fn all_gather(&mut self, part: &[u8]) -> Result<Vec<Vec<u8>>, CommError> {
        self.gather_of(Elements::Bytes, part)
    }

    /// [`Control::all_gather`] of `f64` values, such as partial sums to be added in rank order.
    ///
    /// # Errors
    /// As [`Control::all_gather`], for other types than this one.
    pub fn all_gather_f64(&mut self, part: &[f64]) -> Result<Vec<Vec<f64>>, CommError> {
        let parts = self.gather_of(Elements::F64, bytemuck::cast_slice(part))?;
        Ok(parts.iter().map(|part| bytemuck::pod_collect_to_vec(part)).collect())
    }

    /// [`Control::all_gather`] of `f32` values, such as a tied weight's gradient.
    ///
    /// # Errors
    /// As [`Control::all_gather`], for other types than this one.
    pub fn all_gather_f32(&mut self, part: &[f32]) -> Result<Vec<Vec<f32>>, CommError> {
        let parts = self.gather_of(Elements::F32, bytemuck::cast_slice(part))?;
        Ok(parts.iter().map(|part| bytemuck::pod_collect_to_vec(part)).collect())
    }

    /// Every rank's values, as bytes; whole ones, of the type that this rank gives.
    fn gather_of(&mut self, elements: Elements, part: &[u8]) -> Result<Vec<Vec<u8>>, CommError> {
        let n_bytes = part.len() as u64;
        if n_bytes > MAX_COLLECTIVE_BYTES {
            return Err(CommError::CollectiveTooLarge { n_bytes, limit: MAX_COLLECTIVE_BYTES });
        }
        let round = self.round;
        parts::of(round, elements, self.collective(Collective::AllGather, &parts::with_type(elements, part))?)
    }

    /// A look at the other ranks for other threads, that stays good when this one is stuck or has failed.
    pub fn watch(&self) -> Watch {
        match &self.transport {
            Transport::Memory(_) => MemoryControl::watch(&self.recorder),
            Transport::Socket(socket) => socket.watch().clone(),
        }
    }

    /// What every rank reported last; see [`Watch::last_heard`].
    pub fn last_heard(&self) -> Vec<Heard> {
        self.watch().last_heard()
    }

    /// Has `callback` called, once and from a thread of its own, with the first rank that is lost and why; at once if one
    /// is. It may be this rank itself, when it aborts or when the others have found it frozen.
    ///
    /// # Errors
    /// [`CommError::System`] where no thread can be started.
    pub fn on_loss(&self, callback: impl FnOnce(Rank, &str) + Send + 'static) -> Result<(), CommError> {
        match &self.transport {
            Transport::Memory(memory) => memory.on_loss(move |loss| callback(loss.rank, &loss.reason)),
            Transport::Socket(socket) => {
                socket.alarm().on_loss(move |loss| callback(loss.rank, &loss.reason));
                Ok(())
            }
        }
    }

    /// What rings when a rank is lost; none where all ranks share a process.
    #[cfg(feature = "nccl")]
    pub(crate) const fn alarm(&self) -> Option<&crate::alarm::Alarm> {
        match &self.transport {
            Transport::Memory(_) => None,
            Transport::Socket(socket) => Some(socket.alarm()),
        }
    }

    /// Says that this rank fails, and why: every other rank's waits end with it, whatever they wait for. Only the first
    /// failure of a run is told. What is left of the rank should be dropped.
    pub fn abort(&mut self, reason: &str) {
        match &mut self.transport {
            Transport::Memory(memory) => memory.abort(reason),
            Transport::Socket(socket) => socket.abort(self.recorder.rank(), true, reason.to_owned()),
        }
    }

    /// [`Control::abort`] because of an error between ranks. A rank that only saw another go says so, and the host finds
    /// out which went first: gives the error that all ranks agree on, the rank's own if there is no other.
    pub fn fail(&mut self, error: &CommError) -> CommError {
        let own = self.recorder.rank();
        let (accused, certain, reason) = match error {
            CommError::PeerLost { rank, reason } if *rank != own => (*rank, false, reason.clone()),
            _ => (own, true, error.to_string()),
        };
        let verdict = match &mut self.transport {
            Transport::Memory(memory) => {
                if certain {
                    memory.abort(&reason);
                }
                memory.loss()
            }
            Transport::Socket(socket) => {
                socket.abort(accused, certain, reason);
                socket.verdict()
            }
        };
        verdict.filter(|loss| loss.rank != own).map_or_else(|| error.clone(), CommError::from)
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
