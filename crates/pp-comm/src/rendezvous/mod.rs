//! How the processes of a run find each other, make sure that they run the same verified program, and make every link
//! before step 0.
//!
//! One process runs a [`Host`] at an address that all know (see [`publish_address`]). Every rank calls [`join`]: it says
//! who it is, how many ranks it believes there are, and the fingerprints of the programs it has built. Once all are
//! there and all fits, the host sends everybody the addresses and the certificates; the ranks then make one connection
//! per channel, in one global order, and meet at a barrier. The connections to the host stay for [`Control`](crate::Control).
//!
//! What is said, frame by frame:
//!
//! | from | to | frames | when |
//! | --- | --- | --- | --- |
//! | rank | host | `Hello`, and after the challenge `Proof` | at once |
//! | host | rank | `Challenge`, then `Proven` or `Refused` | at once |
//! | host | rank | `Welcome` or `Refused` | once all ranks are there, or the run cannot start |
//! | rank | host | `AllGather`: the channels it has an end of | after the welcome, as collective 0 |
//! | rank | rank | `Link`, `Challenge`, `Proof`, `Proven` | once those lists agree, on every link, by its source |
//! | rank | rank | `Way` | then: both agree on what the link goes through |
//! | rank | host | `Barrier`, `AllGather` | with each collective |
//! | host | rank | `Part` (one per rank), or `Mismatch`, `Expired` | once a collective is complete, or cannot be |
//! | rank | host | `Beat` | several times per heartbeat |
//! | host | rank | `News` | several times per heartbeat |
//! | rank | host | `Abort` | when it fails |
//! | host | all ranks | `News`, `Lost` | when a rank fails, ends or freezes: the first one only |
//! | rank | host | `Goodbye` | last, in good order |

mod address;
mod auth;
mod dial;
mod gate;
mod host;
mod join;
mod knock;
mod links;
mod lists;
mod protocol;
mod refusal;
mod secret;

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use pp_schedule::{CertificateError, Channel, Rank};

use crate::error::CommError;

pub use address::{await_address, clear_address, peek_address, publish_address, withdraw_address};
pub use host::{Host, HostSpec};
pub use join::{HostAddress, JoinSpec, Joined, join};
pub use protocol::fuzz as fuzz_words;
pub use refusal::Refusal;
pub use secret::{Secret, SecretError};

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
    #[error("whoever listens at {address} did not answer rank {rank} as a host does: {reason}")]
    NoAnswer {
        /// The rank that asked.
        rank: Rank,
        /// The host's address.
        address: SocketAddr,
        /// What happened instead.
        reason: String,
    },
    /// The host does not know the secret.
    #[error(
        "whoever answers rank {rank} at {address} does not know the secret of its run: the secrets differ, or it is no \
         host of this run"
    )]
    WrongSecret {
        /// The rank that asked.
        rank: Rank,
        /// The host's address.
        address: SocketAddr,
    },
    /// Others could take part in the run.
    #[error(
        "{address} can be reached from other machines, but the run has no secret; use a loopback address such as \
         127.0.0.1, or give every rank the same secret (PP_SECRET_FILE or PP_SECRET)"
    )]
    Open {
        /// The address.
        address: SocketAddr,
    },
    /// More is to be said at first than may be.
    #[error(
        "a first word of {n_bytes} bytes, but at most {limit} are heard before a rank has proved itself; shorten the \
         run's name or bring fewer programs"
    )]
    TooLong {
        /// How much it is.
        n_bytes: usize,
        /// The most it may be.
        limit: usize,
    },
    /// There is no secret where one was named.
    #[error(transparent)]
    Secret(#[from] SecretError),
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
    /// A rank was started otherwise than rank 0.
    #[error("rank {rank} was started with other arguments or other data than rank 0; start every rank with the same")]
    Terms {
        /// The rank.
        rank: Rank,
    },
    /// A channel that only one of its two ranks has in its list. Every rank is told.
    #[error(
        "rank {lists} lists the {channel}, but rank {lacks} does not; the ranks at both ends of a channel must list it"
    )]
    OneSided {
        /// The channel.
        channel: Channel,
        /// The rank that has it.
        lists: Rank,
        /// The rank that does not.
        lacks: Rank,
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

/// Whoever can connect must know the secret; without one, nobody else must be able to connect.
fn check_open(address: SocketAddr, secret: Option<&Secret>) -> Result<(), RendezvousError> {
    if secret.is_some() || address.ip().to_canonical().is_loopback() {
        return Ok(());
    }
    Err(RendezvousError::Open { address })
}

impl RendezvousError {
    pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        |source| Self::System { what, source }
    }
}
