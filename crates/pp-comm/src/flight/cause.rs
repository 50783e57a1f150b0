//! Why a rank wrote its record, in parts.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::parts::{ChannelPart, LabelPart, SubjectPart};
use crate::collective::Collective;
use crate::error::CommError;
use crate::message::Boundary;

/// Element type and shape of a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct BoundaryPart {
    /// The element type: `f32`, `f64`, `i64`.
    pub dtype: String,
    /// The shape, outermost dimension first.
    pub shape: Vec<usize>,
}

impl From<&Boundary> for BoundaryPart {
    fn from(boundary: &Boundary) -> Self {
        Self { dtype: boundary.dtype().to_string(), shape: boundary.shape().to_vec() }
    }
}

impl fmt::Display for BoundaryPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.dtype, self.shape)
    }
}

/// What kind of failure a rank met.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Cause {
    /// Another rank ended, failed or froze.
    Lost {
        /// The rank.
        rank: u32,
        /// How that showed.
        reason: String,
    },
    /// A transfer took too long.
    TransferDeadline {
        /// The transfer.
        transfer: SubjectPart,
        /// The limit in seconds.
        limit_s: f64,
    },
    /// Some ranks did not take part in a collective in time.
    CollectiveDeadline {
        /// The collective.
        collective: Collective,
        /// Its number.
        round: u64,
        /// The ranks that were missing, as far as known.
        missing: Vec<u32>,
        /// The limit in seconds.
        limit_s: f64,
    },
    /// Ranks ask for different collectives.
    CollectiveMismatch {
        /// Its number.
        round: u64,
        /// The rank that differs from those before it.
        rank: u32,
        /// What it asks for.
        theirs: Collective,
        /// What the others ask for.
        ours: Collective,
    },
    /// Another message than the one expected next.
    WrongMessage {
        /// The channel.
        channel: ChannelPart,
        /// What was expected.
        expected: LabelPart,
        /// What arrived.
        found: LabelPart,
    },
    /// The right message with another type or shape than agreed.
    WrongBoundary {
        /// The channel.
        channel: ChannelPart,
        /// The message.
        label: LabelPart,
        /// What was agreed.
        expected: BoundaryPart,
        /// What was sent.
        found: BoundaryPart,
    },
    /// Bytes that are no message.
    Malformed {
        /// The channel.
        channel: ChannelPart,
        /// What is wrong with them.
        reason: String,
    },
    /// The rank's own: a computation that failed, a panic, a file that cannot be written.
    Own {
        /// In its words.
        reason: String,
    },
}

impl Cause {
    /// What a communication error is.
    pub fn of(error: &CommError) -> Self {
        match error {
            CommError::PeerLost { rank, reason } => Self::Lost { rank: rank.0, reason: reason.clone() },
            CommError::Deadline { operation, limit } => {
                Self::TransferDeadline { transfer: (*operation).into(), limit_s: limit.as_secs_f64() }
            }
            CommError::CollectiveDeadline { collective, round, missing, limit } => Self::CollectiveDeadline {
                collective: *collective,
                round: *round,
                missing: missing.iter().map(|rank| rank.0).collect(),
                limit_s: limit.as_secs_f64(),
            },
            CommError::CollectiveMismatch { round, rank, theirs, ours } => {
                Self::CollectiveMismatch { round: *round, rank: rank.0, theirs: *theirs, ours: *ours }
            }
            CommError::WrongMessage { channel, expected, found } => {
                Self::WrongMessage { channel: (*channel).into(), expected: (*expected).into(), found: (*found).into() }
            }
            CommError::WrongBoundary { channel, label, expected, found } => Self::WrongBoundary {
                channel: (*channel).into(),
                label: (*label).into(),
                expected: expected.into(),
                found: found.into(),
            },
            CommError::Malformed { channel, fault } => {
                Self::Malformed { channel: (*channel).into(), reason: fault.to_string() }
            }
            other => Self::Own { reason: other.to_string() },
        }
    }

    /// Whether the failure came from this rank or from what it was sent, and not from its waiting for another.
    pub(super) const fn is_first_hand(&self) -> bool {
        !matches!(self, Self::Lost { .. } | Self::TransferDeadline { .. } | Self::CollectiveDeadline { .. })
    }
}
