//! What a frame says it is. It is checked on arrival against what the receive expects.

use std::fmt;

use super::Envelope;
use crate::collective::Collective;

/// What is on its way: a tensor between stages, their shapes, or a piece of a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Label {
    /// One of the tensors that make up a message between stages.
    Tensor {
        /// The message.
        envelope: Envelope,
        /// Which of its tensors, from 0.
        part: u16,
    },
    /// The shapes of a message's tensors, ahead of them where they are not agreed before the step.
    Shapes(Envelope),
    /// What one rank of a group gives another in a collective.
    Piece {
        /// The collective.
        collective: Collective,
        /// The group's number in its mesh.
        group: u32,
        /// Its number among the collectives of the group, from 0.
        round: u64,
        /// Which piece.
        piece: u32,
    },
}

impl From<Envelope> for Label {
    /// The first tensor of a message, which most have only one of.
    fn from(envelope: Envelope) -> Self {
        Self::Tensor { envelope, part: 0 }
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tensor { envelope, part: 0 } => envelope.fmt(f),
            Self::Tensor { envelope, part } => write!(f, "tensor {part} of {envelope}"),
            Self::Shapes(envelope) => write!(f, "the shapes of {envelope}"),
            Self::Piece { collective, group, round, piece } => {
                write!(f, "piece {piece} of {collective} {round} of group {group}")
            }
        }
    }
}
