//! The channels of a pipeline group: a FIFO between each two neighbours on the ring, and the queues they stand in.

use crate::config::ScheduleConfig;
use crate::ids::{ChannelId, Direction, Rank};
use crate::lower::megatron::options::Issue;
use crate::program::{Carries, Channel};

/// The ring of ranks.
///
/// Everything that one communicator carries from one rank to another goes through one FIFO. With more than two ranks
/// that is one FIFO per neighbour and direction; with two, both neighbours are the same rank, and the directions share it.
/// Batches stand in one queue, that of the group's communicator. Transfers issued one by one have, in torch, a
/// communicator per pair of ranks, and over two ranks Megatron gives each way its own; where all of them are serialised
/// on one instead (torch's eager init does that), overlap of warmup and flush deadlocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ring {
    n_ranks: u32,
    issue: Issue,
}

impl Ring {
    pub(super) fn new(config: &ScheduleConfig, issue: Issue) -> Self {
        Self { n_ranks: config.pp(), issue }
    }

    /// The channel by which a rank's messages of a direction leave it; its number is known on every rank.
    pub(super) fn leaving(self, rank: Rank, direction: Direction) -> ChannelId {
        match (self.n_ranks, direction) {
            (2, _) | (_, Direction::Forward) => ChannelId(rank.0),
            (n_ranks, Direction::Backward) => ChannelId(n_ranks + rank.0),
        }
    }

    /// The rank that a rank's messages of a direction go to.
    pub(super) fn after(self, rank: Rank, direction: Direction) -> Rank {
        match direction {
            Direction::Forward => Rank((rank.0 + 1) % self.n_ranks),
            Direction::Backward => Rank((rank.0 + self.n_ranks - 1) % self.n_ranks),
        }
    }

    /// The rank that a rank's messages of a direction come from.
    pub(super) fn before(self, rank: Rank, direction: Direction) -> Rank {
        match direction {
            Direction::Forward => self.after(rank, Direction::Backward),
            Direction::Backward => self.after(rank, Direction::Forward),
        }
    }

    /// A batch stands in the one queue of the group's communicator. Transfers issued one by one stand in a queue per pair
    /// of neighbours, numbered by the rank before.
    fn queue(self, source: Rank, direction: Direction) -> u32 {
        match (self.issue, direction) {
            (Issue::Batched | Issue::Ring, _) => 0,
            (Issue::EvenOdd, Direction::Forward) => source.0,
            (Issue::EvenOdd, Direction::Backward) => self.after(source, direction).0,
        }
    }

    pub(super) fn channels(self) -> Vec<Channel> {
        match self.n_ranks {
            1 => Vec::new(),
            2 => (0..2)
                .map(|source| {
                    let queue = if self.issue == Issue::EvenOdd { source } else { 0 };
                    Channel { source: Rank(source), destination: Rank(1 - source), carries: Carries::Both, queue }
                })
                .collect(),
            n_ranks => [Direction::Forward, Direction::Backward]
                .into_iter()
                .flat_map(|direction| (0..n_ranks).map(move |source| (direction, Rank(source))))
                .map(|(direction, source)| Channel {
                    source,
                    destination: self.after(source, direction),
                    carries: Carries::Only(direction),
                    queue: self.queue(source, direction),
                })
                .collect(),
        }
    }
}
