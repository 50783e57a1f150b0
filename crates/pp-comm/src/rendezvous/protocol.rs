//! What is said at a rendezvous, as payloads of frames.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use pp_schedule::{Carries, Certificate, Channel, Direction, Fingerprint, Rank};

use super::Refusal;
use crate::wire::{Fields, Payload, invalid};

/// The version of this protocol.
pub(super) const VERSION: u32 = 1;

/// The most bytes a first word may have, from whomever it comes.
pub(super) const MAX_HELLO_BYTES: u64 = 4096;

/// The most bytes a welcome may have: addresses and certificates of very many ranks.
pub(super) const MAX_WELCOME_BYTES: u64 = 1 << 24;

/// A rank's first word to the host. Its first three fields are the same in every version, so that a rank of another
/// version can be told what is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    pub(super) version: u32,
    pub(super) n_ranks: u32,
    pub(super) rank: Rank,
    /// Of the programs it has built.
    pub(super) fingerprints: Vec<Fingerprint>,
    /// Where it takes links.
    pub(super) address: SocketAddr,
}

impl Hello {
    pub(super) fn encode(&self) -> Vec<u8> {
        let payload = Payload::default().u32(self.version).u32(self.n_ranks).u32(self.rank.0);
        let payload = payload.bytes(self.address.to_string().as_bytes()).u32(self.fingerprints.len() as u32);
        self.fingerprints.iter().fold(payload, |payload, fingerprint| payload.u128(fingerprint.0)).0
    }

    pub(super) fn decode(payload: &[u8]) -> io::Result<Self> {
        let mut fields = Fields(payload);
        let (version, n_ranks, rank) = (fields.u32()?, fields.u32()?, Rank(fields.u32()?));
        if version != VERSION {
            let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
            return Ok(Self { version, n_ranks, rank, fingerprints: Vec::new(), address: nowhere });
        }
        let address = address(fields.bytes()?)?;
        let n_programs = fields.u32()?;
        let fingerprints = (0..n_programs).map(|_| fields.u128().map(Fingerprint)).collect::<io::Result<_>>()?;
        Ok(Self { version, n_ranks, rank, fingerprints, address })
    }
}

/// The host's answer when all are there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Welcome {
    /// Tells this run from any other on the same machines.
    pub(super) run: u128,
    /// Where the ranks take links, by rank.
    pub(super) addresses: Vec<SocketAddr>,
    pub(super) certificates: Vec<Certificate>,
}

impl Welcome {
    pub(super) fn encode(&self) -> Vec<u8> {
        let payload = Payload::default().u128(self.run).u32(self.addresses.len() as u32);
        let texts = self.addresses.iter().map(ToString::to_string);
        let payload = texts.fold(payload, |payload, text| payload.bytes(text.as_bytes()));
        let payload = payload.u32(self.certificates.len() as u32);
        self.certificates.iter().fold(payload, |payload, certificate| payload.bytes(&certificate.to_bytes())).0
    }

    pub(super) fn decode(payload: &[u8]) -> io::Result<Self> {
        let mut fields = Fields(payload);
        let run = fields.u128()?;
        let n_ranks = fields.u32()?;
        let addresses = (0..n_ranks).map(|_| address(fields.bytes()?)).collect::<io::Result<_>>()?;
        let n_programs = fields.u32()?;
        let certificate = |bytes| Certificate::from_bytes(bytes).map_err(|error| invalid(error.to_string()));
        let certificates = (0..n_programs).map(|_| fields.bytes().and_then(certificate)).collect::<io::Result<_>>()?;
        Ok(Self { run, addresses, certificates })
    }
}

/// What a channel can carry, with its code on the wire.
const CARRIES: [(u32, Carries); 3] =
    [(0, Carries::Only(Direction::Forward)), (1, Carries::Only(Direction::Backward)), (2, Carries::Both)];

/// The first word on a link: which run and channel it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LinkHello {
    pub(super) run: u128,
    pub(super) channel: Channel,
}

impl LinkHello {
    pub(super) fn encode(self) -> Vec<u8> {
        let Channel { source, destination, carries, queue } = self.channel;
        let code = CARRIES.into_iter().find(|&(_, known)| known == carries).map_or(u32::MAX, |(code, _)| code);
        Payload::default().u128(self.run).u32(source.0).u32(destination.0).u32(code).u32(queue).0
    }

    pub(super) fn decode(payload: &[u8]) -> io::Result<Self> {
        let mut fields = Fields(payload);
        let run = fields.u128()?;
        let (source, destination) = (Rank(fields.u32()?), Rank(fields.u32()?));
        let code = fields.u32()?;
        let known = CARRIES.into_iter().find(|&(known, _)| known == code);
        let (_, carries) = known.ok_or_else(|| invalid(format!("a channel that carries {code}")))?;
        let queue = fields.u32()?;
        Ok(Self { run, channel: Channel { source, destination, carries, queue } })
    }
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
            Self::Missing { missing, n_ranks, limit } => {
                let millis = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
                let payload = payload.u32(6).u32(*n_ranks).u64(millis).u32(missing.len() as u32);
                missing.iter().fold(payload, |payload, rank| payload.u32(rank.0))
            }
            Self::Stopped => payload.u32(7),
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
                let (n_ranks, millis, n_missing) = (fields.u32()?, fields.u64()?, fields.u32()?);
                let missing = (0..n_missing).map(|_| fields.u32().map(Rank)).collect::<io::Result<_>>()?;
                Self::Missing { missing, n_ranks, limit: Duration::from_millis(millis) }
            }
            7 => Self::Stopped,
            other => return Err(invalid(format!("refusal {other}"))),
        })
    }
}

fn address(text: &[u8]) -> io::Result<SocketAddr> {
    let text = String::from_utf8_lossy(text);
    text.parse().map_err(|_| invalid(format!("`{text}` is no address")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_round_trip() {
        let address = SocketAddr::from(([127, 0, 0, 1], 4711));
        let hello = Hello {
            version: VERSION,
            n_ranks: 4,
            rank: Rank(3),
            fingerprints: vec![Fingerprint(1 << 100), Fingerprint(7)],
            address,
        };
        assert_eq!(Hello::decode(&hello.encode()).expect("encoded here"), hello);
        assert!(Hello::decode(&hello.encode()[..40]).is_err(), "cut off");
        let other = Hello { version: VERSION + 1, ..hello };
        let understood = Hello::decode(&other.encode()[..12]).expect("the first three fields");
        assert_eq!((understood.version, understood.rank), (VERSION + 1, Rank(3)));
        let certificates = vec![Certificate::from_bytes(&[5; 64]).expect("four ranks")];
        let welcome = Welcome { run: 99 << 70, addresses: vec![address; 4], certificates };
        assert_eq!(Welcome::decode(&welcome.encode()).expect("encoded here"), welcome);
        let channel =
            Channel { source: Rank(3), destination: Rank(0), carries: Carries::Only(Direction::Backward), queue: 7 };
        let link = LinkHello { run: 5, channel };
        assert_eq!(LinkHello::decode(&link.encode()).expect("encoded here"), link);
    }

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
            Refusal::Missing { missing: vec![rank, Rank(3)], n_ranks: 4, limit: Duration::from_millis(60_000) },
            Refusal::Stopped,
        ] {
            assert_eq!(Refusal::decode(&refusal.encode()).expect("encoded here"), refusal);
        }
        assert!(Refusal::decode(&[9, 0, 0, 0]).is_err());
    }
}
