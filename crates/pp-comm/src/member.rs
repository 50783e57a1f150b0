//! A rank's place in a run, and how ranks in one process get theirs.

use std::sync::Arc;
use std::time::Duration;

use pp_schedule::{Channel, Rank};

use crate::board::Board;
use crate::control::{Control, MemoryControl};
use crate::endpoint::{Endpoint, MemoryTransport};
use crate::error::CommError;
use crate::fabric::Fabric;
use crate::flight::Recorder;

/// What a rank needs to take part in a run. It stays on the thread that made it.
#[derive(Debug)]
pub struct Member {
    /// Its ends of the channels.
    pub endpoint: Endpoint,
    /// Its part in what all ranks do together.
    pub control: Control,
}

impl Member {
    /// Leaves in good order. Dropped without this, the rank counts as lost and the others are told so.
    pub fn close(self) {
        self.endpoint.close();
        self.control.close();
    }

    /// Has the rank's messages go between GPUs, over NCCL: for a member that [joined](crate::join) over sockets, whose links then
    /// carry only what says of each message which it is. All ranks call it together, before the first step: communicators are
    /// made for every channel, in one order, and each is tried with a small transfer.
    ///
    /// # Errors
    /// [`CommError::NoNccl`], told to all ranks alike, for a rank that has no NCCL, one that is too old, or another idea of what
    /// there is to be; [`CommError::Nccl`] for a communicator that cannot be made or does not work, and as
    /// [`Control::all_gather`]. The member is lost then.
    #[cfg(feature = "nccl")]
    pub fn over_nccl(self, spec: crate::endpoint::NcclSpec) -> Result<Self, CommError> {
        let Self { endpoint, mut control } = self;
        let endpoint = endpoint.over_nccl(&mut control, spec)?;
        Ok(Self { endpoint, control })
    }

    /// Has `callback` called with the first rank that is lost; see [`Control::on_loss`].
    ///
    /// # Errors
    /// [`CommError::System`] where no thread can be started.
    pub fn on_loss(&self, callback: impl FnOnce(Rank, &str) + Send + 'static) -> Result<(), CommError> {
        self.control.on_loss(callback)
    }

    /// The only member of a run of one rank.
    pub fn alone(deadline: Duration) -> Self {
        let fabric = Arc::new(Board::new(Fabric::new(1, &[], 0)));
        MemoryBuilder::new(Rank(0), 1, &[], deadline, &fabric).build()
    }
}

/// A memory fabric to be made.
#[derive(Clone, Debug)]
pub struct MemorySpec {
    /// How many ranks take part.
    pub n_ranks: u32,
    /// The channels there are.
    pub channels: Vec<Channel>,
    /// How many complete messages a channel may hold: 0 means that a send is complete only once its receive is posted.
    pub capacity: u64,
    /// How long each wait may last.
    pub deadline: Duration,
}

/// One rank's place in a memory fabric, to be carried to the rank's thread and built there. Dropped without that, the
/// rank counts as lost.
#[derive(Debug)]
#[must_use = "the other ranks wait for this one"]
pub struct MemoryBuilder {
    n_ranks: u32,
    channels: Vec<Channel>,
    deadline: Duration,
    endpoint: MemoryTransport,
    control: MemoryControl,
}

/// Ranks in one process: a builder per rank, in rank order.
///
/// # Errors
/// [`CommError::NoSuchRank`] when a channel is between other ranks than these, [`CommError::OneRank`] when it ends where
/// it starts.
pub fn memory_fabric(spec: MemorySpec) -> Result<Vec<MemoryBuilder>, CommError> {
    let MemorySpec { n_ranks, channels, capacity, deadline } = spec;
    check_channels(n_ranks, &channels)?;
    let fabric = Arc::new(Board::new(Fabric::new(n_ranks as usize, &channels, capacity)));
    let builder = |rank| MemoryBuilder::new(Rank(rank), n_ranks, &channels, deadline, &fabric);
    Ok((0..n_ranks).map(builder).collect())
}

impl MemoryBuilder {
    fn new(rank: Rank, n_ranks: u32, channels: &[Channel], deadline: Duration, fabric: &Arc<Board<Fabric>>) -> Self {
        let channels = channels_of(rank, channels);
        let endpoint = MemoryTransport::new(rank, &channels, Arc::clone(fabric));
        Self { n_ranks, channels, deadline, endpoint, control: MemoryControl::new(rank, Arc::clone(fabric)) }
    }

    /// The rank.
    pub const fn rank(&self) -> Rank {
        self.endpoint.rank()
    }

    /// Makes the member, on the thread that will use it.
    pub fn build(self) -> Member {
        let recorder = Recorder::new(self.rank()).of_run(None, self.n_ranks);
        let Self { n_ranks, channels, deadline, endpoint, control } = self;
        Member {
            endpoint: Endpoint::memory(channels, deadline, recorder.clone(), endpoint),
            control: Control::memory(n_ranks, deadline, recorder, control),
        }
    }
}

/// Whether every channel is between two of the ranks there are.
pub(crate) fn check_channels(n_ranks: u32, channels: &[Channel]) -> Result<(), CommError> {
    channels.iter().try_for_each(|&channel| {
        if channel.source.0 >= n_ranks || channel.destination.0 >= n_ranks {
            return Err(CommError::NoSuchRank { channel, n_ranks });
        }
        if channel.source == channel.destination { Err(CommError::OneRank { channel }) } else { Ok(()) }
    })
}

/// The channels that start or end at a rank, in one global order.
pub(crate) fn channels_of(rank: Rank, channels: &[Channel]) -> Vec<Channel> {
    let touches = |channel: &&Channel| channel.source == rank || channel.destination == rank;
    let mut channels: Vec<Channel> = channels.iter().filter(touches).copied().collect();
    channels.sort_unstable();
    channels.dedup();
    channels
}
