//! What is said at a rendezvous, as payloads of frames.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use pp_schedule::{Certificate, Channel, Fingerprint};
use sha2::{Digest, Sha256};

use super::auth::{Challenge, Greeting};
use super::refusal::Refusal;
use crate::channel_fields::{put_channel, take_channel};
use crate::wire::{Fields, Payload, invalid};

/// The version of this protocol.
pub(super) const VERSION: u32 = 3;

/// A rank's first word to the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    pub(super) greeting: Greeting,
    /// Tells attempts at the same job apart; empty where nobody does.
    pub(super) run_name: String,
    /// How long the rank bears silence.
    pub(super) heartbeat: Duration,
    /// Where it takes links.
    pub(super) address: SocketAddr,
    /// Of the programs it has built.
    pub(super) fingerprints: Vec<Fingerprint>,
}

impl Hello {
    pub(super) fn encode(&self) -> Vec<u8> {
        let payload = self.greeting.encode().bytes(self.run_name.as_bytes()).u64(millis(self.heartbeat));
        let payload = payload.bytes(self.address.to_string().as_bytes()).u32(self.fingerprints.len() as u32);
        self.fingerprints.iter().fold(payload, |payload, fingerprint| payload.u128(fingerprint.0)).0
    }

    pub(super) fn decode(payload: &[u8]) -> io::Result<Self> {
        let mut fields = Fields(payload);
        let greeting = Greeting::decode(&mut fields)?;
        let run_name = String::from_utf8_lossy(fields.bytes()?).into_owned();
        let heartbeat = Duration::from_millis(fields.u64()?);
        let address = address(fields.bytes()?)?;
        let n_programs = fields.u32()?;
        let fingerprints = (0..n_programs).map(|_| fields.u128().map(Fingerprint)).collect::<io::Result<_>>()?;
        Ok(Self { greeting, run_name, heartbeat, address, fingerprints })
    }
}

/// The host's answer when all are there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Welcome {
    /// How long the host bears silence.
    pub(super) heartbeat: Duration,
    /// Where the ranks take links, by rank.
    pub(super) addresses: Vec<SocketAddr>,
    pub(super) certificates: Vec<Certificate>,
}

impl Welcome {
    pub(super) fn encode(&self) -> Vec<u8> {
        let payload = Payload::default().u64(millis(self.heartbeat)).u32(self.addresses.len() as u32);
        let texts = self.addresses.iter().map(ToString::to_string);
        let payload = texts.fold(payload, |payload, text| payload.bytes(text.as_bytes()));
        let payload = payload.u32(self.certificates.len() as u32);
        self.certificates.iter().fold(payload, |payload, certificate| payload.bytes(&certificate.to_bytes())).0
    }

    pub(super) fn decode(payload: &[u8]) -> io::Result<Self> {
        let mut fields = Fields(payload);
        let heartbeat = Duration::from_millis(fields.u64()?);
        let n_ranks = fields.u32()?;
        let addresses = (0..n_ranks).map(|_| address(fields.bytes()?)).collect::<io::Result<_>>()?;
        let n_programs = fields.u32()?;
        let certificate = |bytes| Certificate::from_bytes(bytes).map_err(|error| invalid(error.to_string()));
        let certificates = (0..n_programs).map(|_| fields.bytes().and_then(certificate)).collect::<io::Result<_>>()?;
        Ok(Self { heartbeat, addresses, certificates })
    }
}

/// A hash over all programs of a run, for the first word on a link: its two ranks have different ones.
pub(super) fn hash_of(certificates: &[Certificate]) -> [u8; 32] {
    let hash = certificates.iter().fold(Sha256::new(), |hash, certificate| {
        let bytes = certificate.to_bytes();
        hash.chain_update((bytes.len() as u64).to_le_bytes()).chain_update(bytes)
    });
    hash.finalize().into()
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The first word on a link: which run and channel it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LinkHello {
    pub(super) greeting: Greeting,
    pub(super) run: u128,
    pub(super) channel: Channel,
    /// See [`hash_of`].
    pub(super) programs: [u8; 32],
}

impl LinkHello {
    pub(super) fn encode(&self) -> Vec<u8> {
        put_channel(self.greeting.encode().u128(self.run), self.channel).array(&self.programs).0
    }

    pub(super) fn decode(payload: &[u8]) -> io::Result<Self> {
        let mut fields = Fields(payload);
        let greeting = Greeting::decode(&mut fields)?;
        let run = fields.u128()?;
        let channel = take_channel(&mut fields)?;
        Ok(Self { greeting, run, channel, programs: fields.array()? })
    }
}

fn address(text: &[u8]) -> io::Result<SocketAddr> {
    let text = String::from_utf8_lossy(text);
    text.parse().map_err(|_| invalid(format!("`{text}` is no address")))
}

/// Reads every word of a rendezvous out of any bytes; what is understood survives another round.
///
/// # Panics
/// When it does not, or is larger than the bytes account for.
pub fn fuzz(bytes: &[u8]) {
    if let Ok(greeting) = Greeting::decode(&mut Fields(bytes)) {
        assert_eq!(Greeting::decode(&mut Fields(&greeting.encode().0)).ok(), Some(greeting));
    }
    if let Ok(hello) = Hello::decode(bytes) {
        assert!(hello.fingerprints.len() * 16 <= bytes.len());
        assert_eq!(Hello::decode(&hello.encode()).ok(), Some(hello));
    }
    if let Ok(link) = LinkHello::decode(bytes) {
        assert_eq!(LinkHello::decode(&link.encode()).ok(), Some(link));
    }
    if let Ok(challenge) = Challenge::decode(bytes) {
        assert_eq!(Challenge::decode(&challenge.encode()).ok(), Some(challenge));
    }
    if let Ok(welcome) = Welcome::decode(bytes) {
        assert!((welcome.addresses.len() + welcome.certificates.len()) * 8 <= bytes.len());
        assert_eq!(Welcome::decode(&welcome.encode()).ok(), Some(welcome));
    }
    if let Ok(refusal) = Refusal::decode(bytes) {
        assert!(refusal.to_string().len() <= 16 * bytes.len() + 512);
        assert!(Refusal::decode(&refusal.encode()).is_ok());
    }
}

#[cfg(test)]
mod tests {
    use pp_schedule::{Carries, Direction, Rank};

    use super::*;
    use crate::wire::random::Random;

    #[test]
    fn words_round_trip_and_any_bytes_are_words_or_errors() {
        let address = SocketAddr::from(([127, 0, 0, 1], 4711));
        let greeting = Greeting { version: VERSION, n_ranks: 4, rank: 3, has_secret: true, nonce: [9; 32] };
        let heartbeat = Duration::from_millis(10_500);
        let fingerprints = vec![Fingerprint(1 << 100), Fingerprint(7)];
        let hello = Hello { greeting, run_name: "job-7".to_owned(), heartbeat, address, fingerprints };
        assert_eq!(Hello::decode(&hello.encode()).expect("encoded here"), hello);
        assert!(Hello::decode(&hello.encode()[..80]).is_err(), "cut off");
        let certificates = vec![Certificate::from_bytes(&[5; 64]).expect("four ranks")];
        let programs = hash_of(&certificates);
        assert_ne!(programs, hash_of(&[]));
        let welcome = Welcome { heartbeat, addresses: vec![address; 4], certificates };
        assert_eq!(Welcome::decode(&welcome.encode()).expect("encoded here"), welcome);
        let channel =
            Channel { source: Rank(3), destination: Rank(0), carries: Carries::Only(Direction::Backward), queue: 7 };
        let link = LinkHello { greeting, run: 5, channel, programs };
        assert_eq!(LinkHello::decode(&link.encode()).expect("encoded here"), link);

        let challenge = Challenge { version: VERSION, has_secret: false, nonce: [3; 32], run: 5 };
        let refusal = Refusal::Run { rank: Rank(1), theirs: "a".to_owned(), ours: "b".to_owned() };
        let samples = [hello.encode(), welcome.encode(), link.encode(), challenge.encode(), refusal.encode()];
        let mut random = Random(0x5eed);
        for _ in 0..60_000 {
            fuzz(&random.mutate(&samples));
        }
    }
}
