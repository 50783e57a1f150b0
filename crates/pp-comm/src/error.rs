//! What can go wrong between ranks.

use std::fmt;
use std::time::Duration;

use pp_schedule::{Channel, Microbatch, Rank, Role};

use crate::collective::{Collective, Elements};
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
    /// Ranks give values of different types to an all-gather. Every rank is told the same.
    #[error(
        "collective {round}: rank {rank} gives {theirs} where rank {other} gives {ours}; all ranks must give values of \
         one type"
    )]
    CollectiveElements {
        /// Its number, counted from the start of the run.
        round: u64,
        /// The first rank that differs from rank 0.
        rank: Rank,
        /// What it gives.
        theirs: Elements,
        /// A rank that gives something else: rank 0.
        other: Rank,
        /// What that one gives.
        ours: Elements,
    },
    /// Bytes that are no values of an all-gather.
    #[error("collective {round}: the {n_bytes} bytes of rank {rank} are no {expected} with their type")]
    CollectivePart {
        /// Its number, counted from the start of the run.
        round: u64,
        /// The rank.
        rank: Rank,
        /// How many bytes came from it.
        n_bytes: usize,
        /// What they should be.
        expected: Elements,
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
    /// A buffer in a device's memory where bytes of the host travel.
    #[error(
        "{boundary} in a device's memory is given to the {channel}, which goes over {transport}; only channels over NCCL \
         (`Member::over_nccl`) take device memory: copy it to the host first"
    )]
    DeviceBuffer {
        /// The channel.
        channel: Channel,
        /// What it goes over.
        transport: &'static str,
        /// What was given.
        boundary: Boundary,
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
    /// A channel from a rank to itself.
    #[error("the {channel} ends where it starts; a channel is between two ranks")]
    OneRank {
        /// The channel.
        channel: Channel,
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
    /// A collective of a group took too long on this rank's device, though all ranks had asked for it.
    #[cfg(feature = "nccl")]
    #[error("{collective} {round} of group {group} did not complete on the device within {limit:?}")]
    DeviceDeadline {
        /// The collective.
        collective: Collective,
        /// The group.
        group: u32,
        /// Its number among the collectives of the group.
        round: u64,
        /// The limit.
        limit: Duration,
    },
    /// Something of NCCL's or of the device's went wrong.
    #[cfg(feature = "nccl")]
    #[error("{of}: {error}")]
    Nccl {
        /// Where.
        of: Communicator,
        /// What, with NCCL's or the driver's code and text.
        error: nccl_rs::NcclError,
    },
    /// Two ranks' messages on one communicator, in another order at either end.
    #[cfg(feature = "nccl")]
    #[error(
        "{channel}: {label} was message {sent} from rank {} to rank {} on their communicator, but message {expected} was \
         expected; on one communicator all messages between two ranks stand in one order: use a policy that keeps it, or a \
         communicator per channel", channel.source, channel.destination
    )]
    OutOfTurn {
        /// The channel.
        channel: Channel,
        /// The message.
        label: Label,
        /// Its number among those of its source to this rank, from 0.
        sent: i64,
        /// The number that its receive has here.
        expected: i64,
    },
    /// A rank that cannot take part over NCCL. Every rank is told the same.
    #[cfg(feature = "nccl")]
    #[error("rank {rank} cannot take part over NCCL: {reason}")]
    NoNccl {
        /// The rank.
        rank: Rank,
        /// Why.
        reason: String,
    },
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

/// A communicator of NCCL's, by what it is for.
#[cfg(feature = "nccl")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Communicator {
    /// That of one channel.
    Channel(Channel),
    /// That of all channels together.
    All {
        /// Ranks of the run.
        n_ranks: u32,
    },
    /// That of a group's collectives.
    Group {
        /// The group's number.
        id: u32,
        /// Its ranks.
        ranks: Vec<Rank>,
    },
}

#[cfg(feature = "nccl")]
impl fmt::Display for Communicator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Channel(channel) => write!(f, "the communicator of the {channel}"),
            Self::All { n_ranks } => write!(f, "the communicator of all {n_ranks} ranks"),
            Self::Group { id, ranks } => write!(f, "the communicator of group {id}, {}", ranks_text(ranks)),
        }
    }
}
