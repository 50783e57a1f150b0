//! How the processes of a run find each other, make sure that they run the same verified program, and make every link
//! before step 0.
//!
//! One process runs a [`Host`] at an address that all know (see [`publish_address`]). Every rank calls [`join`]: it says
//! who it is, how many ranks it believes there are, and the fingerprints of the programs it has built. Once all are
//! there and all fits, the host sends everybody the addresses and the certificates; the ranks then make one connection
//! per channel, in one global order, and meet at a barrier. The connections to the host stay for [`Control`](crate::Control).

mod address;
mod host;
mod join;
mod links;
mod protocol;
mod secret;

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use pp_schedule::{CertificateError, Channel, Fingerprint, Rank};

use crate::error::{CommError, ranks_text};

pub use address::{await_address, clear_address, peek_address, publish_address, withdraw_address};
pub use host::{Host, HostSpec};
pub use join::{HostAddress, JoinSpec, Joined, join};
pub use secret::Secret;

/// Why the host refuses to start a run. Every rank that has arrived is told the same.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// A rank speaks another version of this protocol.
    #[error("rank {rank} speaks version {theirs} of the rendezvous protocol, but the host speaks {ours}")]
    Version {
        /// The rank.
        rank: Rank,
        /// Its version.
        theirs: u32,
        /// The host's.
        ours: u32,
    },
    /// A rank believes in another number of ranks.
    #[error("rank {rank} was started for {theirs} ranks, but the host for {ours}")]
    World {
        /// The rank.
        rank: Rank,
        /// How many it believes there are.
        theirs: u32,
        /// How many the host expects.
        ours: u32,
    },
    /// A rank that cannot be.
    #[error("rank {rank} arrived, but the ranks are 0 to {}", n_ranks - 1)]
    NoSuchRank {
        /// The rank.
        rank: Rank,
        /// How many there are.
        n_ranks: u32,
    },
    /// Two processes with the same rank.
    #[error("rank {rank} arrived twice: two processes were started with the same rank")]
    Duplicate {
        /// The rank.
        rank: Rank,
    },
    /// A rank brings another number of programs.
    #[error("rank {rank} brings {theirs} programs, but {ours} were verified")]
    Programs {
        /// The rank.
        rank: Rank,
        /// How many it brings.
        theirs: u32,
        /// How many were verified.
        ours: u32,
    },
    /// A rank has built another program than the one verified.
    #[error(
        "rank {rank} has built another program (number {program}) than the one verified: fingerprint {built}, verified \
         {verified}; start every rank with the same arguments and the same binary"
    )]
    Program {
        /// The rank.
        rank: Rank,
        /// Which of its programs.
        program: u32,
        /// What it built.
        built: Fingerprint,
        /// What was verified.
        verified: Fingerprint,
    },
    /// Not everybody came in time.
    #[error("{} of {n_ranks} did not arrive within {limit:?}", ranks_text(missing))]
    Missing {
        /// Who did not.
        missing: Vec<Rank>,
        /// How many ranks there are.
        n_ranks: u32,
        /// The limit.
        limit: Duration,
    },
    /// The host was stopped.
    #[error("the host was stopped before all ranks had arrived")]
    Stopped,
}

/// Why a run did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RendezvousError {
    /// The host said no.
    #[error("{0}")]
    Refused(Refusal),
    /// Nobody listens at the host's address.
    #[error("no host at {address} within {limit:?}: {reason}")]
    Unreachable {
        /// The address.
        address: SocketAddr,
        /// The limit.
        limit: Duration,
        /// What the last attempt said.
        reason: String,
    },
    /// The host took the connection, but did not answer properly.
    #[error("the host at {address} gave no proper answer to rank {rank} within {limit:?}: {reason}")]
    NoAnswer {
        /// The rank that asked.
        rank: Rank,
        /// The host's address.
        address: SocketAddr,
        /// The limit.
        limit: Duration,
        /// What happened instead.
        reason: String,
    },
    /// A link between two ranks could not be made.
    #[error("rank {rank} cannot make the {channel}: {reason}")]
    Link {
        /// The rank.
        rank: Rank,
        /// The channel.
        channel: Channel,
        /// What happened instead.
        reason: String,
    },
    /// The host's certificates are none.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// The ranks could not work together from the start.
    #[error(transparent)]
    Comm(#[from] CommError),
    /// Certificates that do not cover the ranks there are.
    #[error("a certificate covers {covered} ranks, but the run has {n_ranks}")]
    Coverage {
        /// Ranks covered.
        covered: usize,
        /// Ranks there are.
        n_ranks: u32,
    },
    /// An address that was not published in time.
    #[error("no address was written to {path} within {limit:?}")]
    NoAddress {
        /// The file.
        path: String,
        /// The limit.
        limit: Duration,
    },
    /// The ranks did not leave in time.
    #[error("the ranks had not all left the run within {limit:?}")]
    NotOver {
        /// The limit.
        limit: Duration,
    },
    /// The system refused something.
    #[error("cannot {what}")]
    System {
        /// What was tried.
        what: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl RendezvousError {
    pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        |source| Self::System { what, source }
    }
}
