//! What can go wrong in a group.

use pp_schedule::Rank;

use crate::collective::Collective;
use crate::error::CommError;
use crate::message::{Boundary, BufferError};

/// Why a collective did not do its work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GroupError {
    /// A message did not come through, or another rank asks for something else: [`CommError::WrongMessage`] says for
    /// which collective, [`CommError::WrongBoundary`] of which type and shape.
    #[error(transparent)]
    Comm(#[from] CommError),
    /// Ranks have another root in mind.
    #[error(
        "{collective} {round} of group {group}: rank {rank} takes place {theirs} for the root, but this rank takes place \
         {ours}"
    )]
    Root {
        /// The collective.
        collective: Collective,
        /// The group.
        group: u32,
        /// Its number among the collectives of the group.
        round: u64,
        /// The rank that differs.
        rank: Rank,
        /// Its root.
        theirs: usize,
        /// This rank's.
        ours: usize,
    },
    /// Some ranks have their tensors on the host, others on their devices.
    #[error(
        "{collective} {round} of group {group}: rank {rank}'s tensor is {}; all ranks' must be on the host, or all on devices",
        if *theirs_on_device { "on its device, but this rank's is on the host" }
        else { "on the host, but this rank's is on its device" }
    )]
    Memory {
        /// The collective.
        collective: Collective,
        /// The group.
        group: u32,
        /// Its number among the collectives of the group.
        round: u64,
        /// The rank that differs.
        rank: Rank,
        /// Whether its tensor is on a device.
        theirs_on_device: bool,
    },
    /// A root that is not in the group.
    #[error("rank {rank} takes place {root} for the root, but group {group} has the places 0 to {}", n_ranks - 1)]
    NoSuchRoot {
        /// This rank.
        rank: Rank,
        /// The place.
        root: usize,
        /// The group.
        group: u32,
        /// Its ranks.
        n_ranks: usize,
    },
    /// A root that gives nothing, or another rank that does.
    #[error("place {root} is the root of a broadcast, and it alone gives a buffer; rank {rank} at place {place} {}",
        if *gives { "gives one too" } else { "is it and gives none" })]
    Giver {
        /// This rank.
        rank: Rank,
        /// The root.
        root: usize,
        /// This rank's place.
        place: usize,
        /// Whether it gives a buffer.
        gives: bool,
    },
    /// A tensor on a device, in a group that has no communicator there.
    #[error(
        "rank {rank} has no communicator for tensors on devices of group {group}; name the group when the member goes over NCCL"
    )]
    NoCommunicator {
        /// This rank.
        rank: Rank,
        /// The group.
        group: u32,
    },
    /// A buffer that is not what it was said to be.
    #[error("{expected} is to be given, but the buffer is {given}")]
    Given {
        /// What it should be.
        expected: Boundary,
        /// What it is.
        given: Boundary,
    },
}

impl From<BufferError> for GroupError {
    fn from(error: BufferError) -> Self {
        Self::Comm(error.into())
    }
}
