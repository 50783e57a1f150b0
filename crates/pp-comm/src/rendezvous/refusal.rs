//! Why the host refuses to start a run, in words and on the wire.

use std::io;
use std::time::Duration;

use pp_schedule::{Fingerprint, Rank};

use crate::error::ranks_text;
use crate::wire::{Fields, Payload, invalid};

/// The most ranks that a refusal lists: who misses more than these is told in any case.
const MAX_LISTED: usize = 1000;

/// Why the host refuses to start a run. Every rank that has arrived is told the same, but for [`Refusal::Secret`] and
/// [`Refusal::Run`]: whoever is refused so is no rank of the run, which goes on waiting.
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
    /// A rank with another secret. The host goes on waiting for the true one.
    #[error("{}", secrets_text(*rank, *theirs, *ours))]
    Secret {
        /// As which rank it came.
        rank: Rank,
        /// Whether it has one at all.
        theirs: bool,
        /// Whether the host has one.
        ours: bool,
    },
    /// A rank of another run, such as an earlier attempt at the same job. The host goes on waiting for its own.
    #[error(
        "rank {rank} belongs to run {theirs:?}, but the host to run {ours:?}: another attempt at the job is under way"
    )]
    Run {
        /// The rank.
        rank: Rank,
        /// The name of its run.
        theirs: String,
        /// That of the host's.
        ours: String,
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
    #[error("{} of {n_ranks} did not arrive within {limit:?}{}", ranks_text(missing), strangers_text(strangers))]
    Missing {
        /// Who did not.
        missing: Vec<Rank>,
        /// As which ranks somebody came with another secret or of another run.
        strangers: Vec<Rank>,
        /// How many ranks there are.
        n_ranks: u32,
        /// The limit.
        limit: Duration,
    },
    /// The host was stopped.
    #[error("the host was stopped before all ranks had arrived")]
    Stopped,
}

impl Refusal {
    /// Whether it ends the run, rather than only turning one caller away.
    pub(super) const fn ends_the_run(&self) -> bool {
        !matches!(self, Self::Secret { .. } | Self::Run { .. })
    }
}

fn secrets_text(rank: Rank, theirs: bool, ours: bool) -> String {
    let what = match (theirs, ours) {
        (true, false) => format!("rank {rank} has a secret, but the host has none"),
        (false, true) => format!("rank {rank} has no secret, but the host has one"),
        _ => format!("rank {rank} and the host have different secrets"),
    };
    what + "; start every rank with the one secret of the run"
}

fn strangers_text(strangers: &[Rank]) -> String {
    if strangers.is_empty() {
        return String::new();
    }
    format!("; somebody came as {}, but with another secret or of another run", ranks_text(strangers))
}

fn put_ranks(payload: Payload, ranks: &[Rank]) -> Payload {
    let listed = &ranks[..ranks.len().min(MAX_LISTED)];
    listed.iter().fold(payload.u32(listed.len() as u32), |payload, rank| payload.u32(rank.0))
}

fn take_ranks(fields: &mut Fields<'_>) -> io::Result<Vec<Rank>> {
    let n_ranks = fields.u32()?;
    (0..n_ranks).map(|_| fields.u32().map(Rank)).collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl Refusal {
    pub(super) fn encode(&self) -> Vec<u8> {
        let payload = Payload::default();
        match self {
            Self::Version { rank, theirs, ours } => payload.u32(0).u32(rank.0).u32(*theirs).u32(*ours),
            Self::World { rank, theirs, ours } => payload.u32(1).u32(rank.0).u32(*theirs).u32(*ours),
            Self::NoSuchRank { rank, n_ranks } => payload.u32(2).u32(rank.0).u32(*n_ranks),
            Self::Duplicate { rank } => payload.u32(3).u32(rank.0),
            Self::Programs { rank, theirs, ours } => payload.u32(4).u32(rank.0).u32(*theirs).u32(*ours),
            Self::Program { rank, program, built, verified } => {
                payload.u32(5).u32(rank.0).u32(*program).u128(built.0).u128(verified.0)
            }
            Self::Missing { missing, strangers, n_ranks, limit } => {
                let millis = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
                put_ranks(put_ranks(payload.u32(6).u32(*n_ranks).u64(millis), missing), strangers)
            }
            Self::Stopped => payload.u32(7),
            Self::Secret { rank, theirs, ours } => payload.u32(8).u32(rank.0).u32((*theirs).into()).u32((*ours).into()),
            Self::Run { rank, theirs, ours } => {
                payload.u32(9).u32(rank.0).bytes(theirs.as_bytes()).bytes(ours.as_bytes())
            }
        }
        .0
    }

    pub(super) fn decode(payload: &[u8]) -> io::Result<Self> {
        let mut fields = Fields(payload);
        let kind = fields.u32()?;
        let mut rank = || fields.u32().map(Rank);
        Ok(match kind {
            0 => Self::Version { rank: rank()?, theirs: fields.u32()?, ours: fields.u32()? },
            1 => Self::World { rank: rank()?, theirs: fields.u32()?, ours: fields.u32()? },
            2 => Self::NoSuchRank { rank: rank()?, n_ranks: fields.u32()?.max(1) },
            3 => Self::Duplicate { rank: rank()? },
            4 => Self::Programs { rank: rank()?, theirs: fields.u32()?, ours: fields.u32()? },
            5 => Self::Program {
                rank: rank()?,
                program: fields.u32()?,
                built: Fingerprint(fields.u128()?),
                verified: Fingerprint(fields.u128()?),
            },
            6 => {
                let (n_ranks, limit) = (fields.u32()?, Duration::from_millis(fields.u64()?));
                let (missing, strangers) = (take_ranks(&mut fields)?, take_ranks(&mut fields)?);
                Self::Missing { missing, strangers, n_ranks, limit }
            }
            7 => Self::Stopped,
            8 => Self::Secret { rank: rank()?, theirs: fields.u32()? != 0, ours: fields.u32()? != 0 },
            9 => Self::Run { rank: rank()?, theirs: text(fields.bytes()?), ours: text(fields.bytes()?) },
            other => return Err(invalid(format!("refusal {other}"))),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_round_trip() {
        let rank = Rank(2);
        for refusal in [
            Refusal::Version { rank, theirs: 9, ours: 1 },
            Refusal::World { rank, theirs: 3, ours: 4 },
            Refusal::NoSuchRank { rank, n_ranks: 2 },
            Refusal::Duplicate { rank },
            Refusal::Programs { rank, theirs: 1, ours: 2 },
            Refusal::Program { rank, program: 1, built: Fingerprint(1), verified: Fingerprint(u128::MAX) },
            Refusal::Missing {
                missing: vec![rank, Rank(3)],
                strangers: vec![Rank(3)],
                n_ranks: 4,
                limit: Duration::from_millis(60_000),
            },
            Refusal::Missing {
                missing: vec![rank],
                strangers: vec![],
                n_ranks: 4,
                limit: Duration::from_millis(60_000),
            },
            Refusal::Stopped,
            Refusal::Secret { rank, theirs: true, ours: false },
            Refusal::Run { rank, theirs: "job-7.1".to_owned(), ours: "job-7.2".to_owned() },
        ] {
            assert_eq!(Refusal::decode(&refusal.encode()).expect("encoded here"), refusal);
        }
        assert!(Refusal::decode(&[10, 0, 0, 0]).is_err());
    }
}
