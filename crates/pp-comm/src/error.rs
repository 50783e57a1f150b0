//! What can go wrong between ranks.

use std::fmt;
use std::time::Duration;

use pp_schedule::{Channel, Microbatch, Rank, Role};
use serde::{Deserialize, Serialize};

use crate::message::{Boundary, BufferError, HeaderError, Label};

/// One side of a transfer, as it stands in messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Operation {
    /// Send or receive.
    pub role: Role,
    /// The channel it goes over.
    pub channel: Channel,
    /// What is transferred.
    pub label: Label,
}

impl Operation {
    /// The rank at the other end.
    pub const fn peer(self) -> Rank {
        match self.role {
            Role::Send => self.channel.destination,
            Role::Receive => self.channel.source,
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (verb, peer) = (role_name(self.role), self.peer());
        let preposition = if self.role == Role::Send { "to" } else { "from" };
        write!(f, "the {verb} {preposition} rank {peer} of {}", self.label)
    }
}

/// The name of a side of a transfer.
pub(crate) const fn role_name(role: Role) -> &'static str {
    match role {
        Role::Send => "send",
        Role::Receive => "receive",
    }
}

/// An operation that all ranks of a run or a group take part in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Collective {
    /// All ranks wait for each other.
    Barrier = 1,
    /// All ranks get what each of them gives, in rank order.
    AllGather = 2,
    /// All ranks get what one of them gives.
    Broadcast = 3,
    /// All ranks get the sum of what they give.
    AllReduce = 4,
    /// Each rank gets its share of the sum of what they give.
    ReduceScatter = 5,
}

impl Collective {
    const ALL: [Self; 5] = [Self::Barrier, Self::AllGather, Self::Broadcast, Self::AllReduce, Self::ReduceScatter];

    /// The collective with this number on the wire.
    pub(crate) fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|collective| *collective as u8 == code)
    }
}

impl fmt::Display for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Barrier => "barrier",
            Self::AllGather => "all-gather",
            Self::Broadcast => "broadcast",
            Self::AllReduce => "all-reduce",
            Self::ReduceScatter => "reduce-scatter",
        })
    }
}

/// Ranks as text: `rank 2`, `ranks 2, 3`.
pub(crate) fn ranks_text(ranks: &[Rank]) -> String {
    let list: Vec<String> = ranks.iter().map(ToString::to_string).collect();
    format!("rank{} {}", if ranks.len() == 1 { "" } else { "s" }, list.join(", "))
}

/// Why a message or a collective did not come through.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommError {
    /// Another rank ended or failed.
    #[error("rank {rank} is lost: {reason}")]
    PeerLost {
        /// The rank.
        rank: Rank,
        /// How that showed.
        reason: String,
    },
    /// A transfer took too long.
    #[error("{operation} did not complete within {limit:?}")]
    Deadline {
        /// The transfer.
        operation: Operation,
        /// The limit.
        limit: Duration,
    },
    /// Some ranks did not take part in a collective in time.
    #[error("{collective} {round} did not complete within {limit:?}: {} did not arrive", ranks_text(missing))]
    CollectiveDeadline {
        /// The collective.
        collective: Collective,
        /// Its number, counted from the start of the run.
        round: u64,
        /// The ranks that were missing, as far as they are known.
        missing: Vec<Rank>,
        /// The limit.
        limit: Duration,
    },
    /// Ranks ask for different collectives.
    #[error(
        "collective {round}: rank {rank} asks for {theirs} where others ask for {ours}; all ranks must ask for the same \
         ones in the same order"
    )]
    CollectiveMismatch {
        /// Its number, counted from the start of the run.
        round: u64,
        /// The rank that differs from those before it.
        rank: Rank,
        /// What it asks for.
        theirs: Collective,
        /// What the others ask for.
        ours: Collective,
    },
    /// A rank gives more to a collective than may travel.
    #[error("{n_bytes} bytes are given to an all-gather, but at most {limit} may be")]
    CollectiveTooLarge {
        /// Bytes given.
        n_bytes: u64,
        /// The most there may be.
        limit: u64,
    },
    /// Another message than the one expected next.
    #[error("{channel}: expected {expected}, but {found} arrived")]
    WrongMessage {
        /// The channel.
        channel: Channel,
        /// What was expected.
        expected: Label,
        /// What arrived.
        found: Label,
    },
    /// The right message with another type or shape than agreed.
    #[error("{channel}: {label} was agreed to be {expected}, but {found} was sent")]
    WrongBoundary {
        /// The channel.
        channel: Channel,
        /// The message.
        label: Label,
        /// What was agreed.
        expected: Boundary,
        /// What was sent.
        found: Boundary,
    },
    /// Bytes that are no message.
    #[error("{channel}: {fault}")]
    Malformed {
        /// The channel.
        channel: Channel,
        /// What is wrong with them.
        fault: HeaderError,
    },
    /// A channel that was not built.
    #[error("rank {rank} has no {channel}; endpoints build exactly the channels they are given")]
    NoChannel {
        /// The rank.
        rank: Rank,
        /// The channel.
        channel: Channel,
    },
    /// A send where the channel ends, or a receive where it starts.
    #[error("rank {rank} cannot {} on the {channel}: it is at the other end", role_name(*role))]
    WrongEnd {
        /// The rank.
        rank: Rank,
        /// The channel.
        channel: Channel,
        /// What was tried.
        role: Role,
    },
    /// A ticket of another endpoint.
    #[error("rank {rank} cannot wait for {operation}: another endpoint posted it; wait for it there")]
    ForeignTicket {
        /// The rank that was asked to wait.
        rank: Rank,
        /// The transfer.
        operation: Operation,
    },
    /// A channel between ranks that do not exist.
    #[error("the {channel} is not between two of the {n_ranks} ranks there are")]
    NoSuchRank {
        /// The channel.
        channel: Channel,
        /// Ranks there are.
        n_ranks: u32,
    },
    /// A microbatch that no boundary was given for.
    #[error("no boundary was given for microbatch {microbatch}; give one for each of the program's")]
    NoBoundary {
        /// The microbatch.
        microbatch: Microbatch,
    },
    /// A program without a channel that every pipeline has.
    #[error(
        "rank {rank} cannot tell boundaries on: the program has no channel for activations from place {place} to {after}"
    )]
    NoWay {
        /// The rank.
        rank: Rank,
        /// The place in the pipeline where it starts.
        place: u32,
        /// The one after it.
        after: u32,
    },
    /// A buffer that cannot be.
    #[error(transparent)]
    Buffer(#[from] BufferError),
    /// The system refused something.
    #[error("cannot {what}: {reason}")]
    System {
        /// What was tried.
        what: String,
        /// What the system said.
        reason: String,
    },
}

/// A rank that is gone, as shared between the threads that notice it.
#[derive(Clone, Debug)]
pub(crate) struct Loss {
    pub(crate) rank: Rank,
    pub(crate) reason: String,
}

impl From<Loss> for CommError {
    fn from(loss: Loss) -> Self {
        Self::PeerLost { rank: loss.rank, reason: loss.reason }
    }
}
