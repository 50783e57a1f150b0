//! What can go wrong between neighbours on a ring.

use pp_schedule::{Placement, Rank, Stage};

use super::contents::Part;
use crate::error::CommError;
use crate::message::{BufferError, Envelope};

/// Why a method of [`RingComm`](super::RingComm) did not do its work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum P2pError {
    /// A message did not come through.
    #[error(transparent)]
    Comm(#[from] CommError),
    /// Another number of items than agreed.
    #[error("{envelope}: {agreed} items were agreed, but {given} are given")]
    Arity {
        /// The message.
        envelope: Envelope,
        /// How many were agreed.
        agreed: usize,
        /// How many there are.
        given: usize,
    },
    /// Another item than agreed.
    #[error("{envelope}: item {part} was agreed to be {agreed}, but {given} is given")]
    WrongItem {
        /// The message.
        envelope: Envelope,
        /// The place of the item.
        part: usize,
        /// What was agreed.
        agreed: Part,
        /// What there is.
        given: Part,
    },
    /// A shape that is larger than agreed, or has another number of dimensions.
    #[error("{envelope}: item {part} may be at most {bound}, but its shape is {found:?}")]
    BeyondBound {
        /// The message.
        envelope: Envelope,
        /// The place of the item.
        part: usize,
        /// The most it may be.
        bound: Part,
        /// The shape that was declared.
        found: Vec<i64>,
    },
    /// Shapes that mean nothing.
    #[error("the shapes of {envelope} are damaged: item {part} is declared as {row:?}")]
    Shapes {
        /// The message.
        envelope: Envelope,
        /// The place of the item.
        part: usize,
        /// What was declared.
        row: Vec<i64>,
    },
    /// Messages of nothing, or of more items than can be numbered.
    #[error("a message of {given} items is asked for, but one has 1 to {most}")]
    Items {
        /// How many were asked for.
        given: usize,
        /// The most there may be.
        most: usize,
    },
    /// Stages that do not follow each other around the group.
    #[error(
        "the ring methods need stages that go around the group's {n_ranks} ranks in a loop, but the placement is \
         {placement:?}; run a program instead"
    )]
    NoRing {
        /// Which rank has which stage.
        placement: Placement,
        /// Ranks of the group.
        n_ranks: usize,
    },
    /// A stage that this rank does not have.
    #[error("stage {stage} is asked for on rank {rank}, place {place} of its group, which has {}", stages_text(has))]
    NotHere {
        /// The stage.
        stage: Stage,
        /// The rank.
        rank: Rank,
        /// Its place in the group.
        place: usize,
        /// The stages it has.
        has: Vec<Stage>,
    },
    /// Overlap with transfers issued in groups.
    #[error("transfers issued {issue:?} cannot overlap computation; issue them even-odd, or turn the overlap off")]
    OverlapNeedsEvenOdd {
        /// How they are issued.
        issue: pp_schedule::lower::megatron::Issue,
    },
    /// A call that returns early where overlap is off.
    #[error("overlap is off, so that every call waits; make the communicator with an overlap to start transfers")]
    OverlapIsOff,
}

impl From<BufferError> for P2pError {
    fn from(error: BufferError) -> Self {
        Self::Comm(error.into())
    }
}

fn stages_text(stages: &[Stage]) -> String {
    let list: Vec<String> = stages.iter().map(ToString::to_string).collect();
    format!("stage{} {}", if stages.len() == 1 { "" } else { "s" }, list.join(", "))
}
