//! The rendezvous protocol spoken by hand, from its description alone: ranks that lie, fall silent or say half a word.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use pp_comm::Secret;
use pp_schedule::{Carries, Channel, Direction};
use sha2::{Digest, Sha256};

use crate::common::PATIENCE;

pub(crate) const HELLO: u8 = 1;
pub(crate) const WELCOME: u8 = 2;
pub(crate) const REFUSED: u8 = 3;
pub(crate) const BARRIER: u8 = 5;
pub(crate) const ALL_GATHER: u8 = 6;
pub(crate) const LOST: u8 = 8;
const LINK: u8 = 4;
const WAY: u8 = 18;
pub(crate) const PART: u8 = 7;
pub(crate) const CHALLENGE: u8 = 12;
pub(crate) const PROOF: u8 = 13;
pub(crate) const PROVEN: u8 = 14;
pub(crate) const BEAT: u8 = 15;

/// What a proof is for, and whose it is.
pub(crate) const CONTROL: u8 = 1;
const LINKING: u8 = 2;
const CALLER: u8 = 1;
pub(crate) const CALLED: u8 = 2;

/// A frame of some kind.
pub(crate) fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    frame_of(kind, 0, payload)
}

/// A frame of a collective.
fn frame_of(kind: u8, round: u64, payload: &[u8]) -> Vec<u8> {
    let mut bytes = b"PPMC".to_vec();
    bytes.extend([kind, 0, 0, 0]);
    bytes.extend([0; 8]);
    bytes.extend(round.to_le_bytes());
    bytes.extend((payload.len() as u64).to_le_bytes());
    bytes.extend(payload);
    bytes
}

/// What a rank claims.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) version: u32,
    pub(crate) n_ranks: u32,
    pub(crate) rank: u32,
    pub(crate) secret: Option<Secret>,
    pub(crate) run_name: String,
    pub(crate) nonce: [u8; 32],
    /// Where it says that it takes links.
    pub(crate) address: String,
}

impl Claim {
    pub(crate) fn new(n_ranks: u32, rank: u32, secret: Option<Secret>) -> Self {
        Self {
            version: 3,
            n_ranks,
            rank,
            secret,
            run_name: String::new(),
            nonce: [rank as u8; 32],
            address: "127.0.0.1:9".to_owned(),
        }
    }

    /// The payload of its hello.
    pub(crate) fn hello(&self) -> Vec<u8> {
        let mut bytes = self.greeting();
        put(&mut bytes, self.run_name.as_bytes());
        bytes.extend(10_000u64.to_le_bytes());
        put(&mut bytes, self.address.as_bytes());
        bytes.extend(0u32.to_le_bytes());
        bytes
    }

    /// The proof of a rank that says this hello, under its secret.
    pub(crate) fn proof(&self, challenge: &[u8]) -> [u8; 32] {
        prove(self.secret.as_ref(), [CONTROL, CALLER], &self.hello(), challenge)
    }

    /// The first word on a link from this rank to another, of a run without programs.
    pub(crate) fn link_hello(&self, run: u128, channel: Channel) -> Vec<u8> {
        let mut bytes = self.greeting();
        bytes.extend(run.to_le_bytes());
        bytes.extend(words_of(channel));
        bytes.extend(Sha256::digest([]));
        bytes
    }

    /// Makes a link to a rank at an address, and has it use the connection itself.
    pub(crate) fn link(&self, address: SocketAddr, run: u128, channel: Channel) -> io::Result<Speaker> {
        let mut speaker = self.proved_link(address, run, channel)?;
        speaker.say(WAY, &1u32.to_le_bytes())?;
        speaker.hear_until(WAY)?;
        Ok(speaker)
    }

    /// Proves itself on a link to a rank at an address, and says no more.
    pub(crate) fn proved_link(&self, address: SocketAddr, run: u128, channel: Channel) -> io::Result<Speaker> {
        let mut speaker = Speaker::call(address)?;
        let hello = self.link_hello(run, channel);
        speaker.say(LINK, &hello)?;
        let (_, challenge) = speaker.hear()?;
        speaker.say(PROOF, &prove(self.secret.as_ref(), [LINKING, CALLER], &hello, &challenge))?;
        let proof = speaker.hear_until(PROVEN)?;
        assert_eq!(proof, prove(self.secret.as_ref(), [LINKING, CALLED], &hello, &challenge));
        Ok(speaker)
    }

    fn greeting(&self) -> Vec<u8> {
        let words = [self.version, self.n_ranks, self.rank, self.secret.is_some().into()];
        let mut bytes: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
        bytes.extend(self.nonce);
        bytes
    }

    /// Joins a run: says hello, proves itself, and waits for the welcome; gives the run and the ranks' addresses.
    pub(crate) fn join(&self, address: SocketAddr) -> io::Result<(Speaker, u128, Vec<SocketAddr>)> {
        let mut speaker = Speaker::call(address)?;
        speaker.say(HELLO, &self.hello())?;
        let challenge = speaker.hear_until(CHALLENGE)?;
        speaker.say(PROOF, &self.proof(&challenge))?;
        let proof = speaker.hear_until(PROVEN)?;
        assert_eq!(proof, prove(self.secret.as_ref(), [CONTROL, CALLED], &self.hello(), &challenge));
        let welcome = speaker.hear_until(WELCOME)?;
        let run = u128::from_le_bytes(challenge[40..].try_into().expect("sixteen bytes"));
        let mut rest = &welcome[12..];
        let addresses = (0..self.n_ranks).map(|_| {
            let (len, text) = rest.split_at(8);
            let (text, left) = text.split_at(len[0].into());
            rest = left;
            String::from_utf8_lossy(text).parse().expect("an address")
        });
        let addresses = addresses.collect();
        Ok((speaker, run, addresses))
    }

    /// Says hello and proves itself; gives what it was answered, `PROVEN` or `REFUSED`.
    pub(crate) fn enter(&self, address: SocketAddr) -> io::Result<(Speaker, (u8, Vec<u8>))> {
        let mut speaker = Speaker::call(address)?;
        speaker.say(HELLO, &self.hello())?;
        let (kind, challenge) = speaker.hear()?;
        if kind != CHALLENGE {
            return Ok((speaker, (kind, challenge)));
        }
        speaker.say(PROOF, &self.proof(&challenge))?;
        let answer = speaker.hear()?;
        Ok((speaker, answer))
    }
}

/// A connection on which frames are spoken.
pub(crate) struct Speaker(pub(crate) TcpStream);

impl Speaker {
    pub(crate) fn call(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self(stream))
    }

    pub(crate) fn say(&mut self, kind: u8, payload: &[u8]) -> io::Result<()> {
        self.0.write_all(&frame(kind, payload))
    }

    /// The word of a collective.
    pub(crate) fn say_in(&mut self, round: u64, kind: u8, payload: &[u8]) -> io::Result<()> {
        self.0.write_all(&frame_of(kind, round, payload))
    }

    /// What a rank gives to the first two collectives of a run: its terms (0) and the channels it has an end of, and a barrier.
    pub(crate) fn start_with(&mut self, channels: &[Channel]) -> io::Result<()> {
        let mut list = vec![0; 16];
        list.extend(channels.iter().flat_map(|&channel| words_of(channel)));
        // The values are bytes.
        list.push(0);
        self.say_in(0, ALL_GATHER, &list)?;
        self.hear_until(PART)?;
        self.say_in(1, BARRIER, &[])
    }

    /// A sign of life.
    pub(crate) fn beat(&mut self, text: &str) -> io::Result<()> {
        let mut payload = 0u64.to_le_bytes().to_vec();
        put(&mut payload, text.as_bytes());
        self.say(BEAT, &payload)
    }

    pub(crate) fn hear(&mut self) -> io::Result<(u8, Vec<u8>)> {
        let mut head = [0; 32];
        self.0.read_exact(&mut head)?;
        let len = u64::from_le_bytes(head[24..].try_into().expect("eight bytes"));
        let mut payload = vec![0; usize::try_from(len).expect("a short frame")];
        self.0.read_exact(&mut payload)?;
        Ok((head[4], payload))
    }

    /// Hears until a frame of some kind comes.
    pub(crate) fn hear_until(&mut self, kind: u8) -> io::Result<Vec<u8>> {
        loop {
            let (found, payload) = self.hear()?;
            if found == kind {
                return Ok(payload);
            }
        }
    }

    /// Whether the other side has hung up, and not only said nothing for a while.
    pub(crate) fn is_hung_up_within(&mut self, limit: Duration) -> bool {
        self.0.set_read_timeout(Some(limit)).expect("a timeout");
        match self.0.read(&mut [0; 64]) {
            Ok(n_bytes) => n_bytes == 0,
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
        }
    }
}

fn words_of(channel: Channel) -> Vec<u8> {
    let carries = match channel.carries {
        Carries::Only(Direction::Forward) => 0,
        Carries::Only(Direction::Backward) => 1,
        Carries::Both => 2,
    };
    let words = [channel.source.0, channel.destination.0, carries, channel.queue];
    words.into_iter().flat_map(u32::to_le_bytes).collect()
}

/// The proof of one role for one purpose, after a first word and a challenge.
pub(crate) fn prove(secret: Option<&Secret>, words: [u8; 2], first_word: &[u8], challenge: &[u8]) -> [u8; 32] {
    let key: Vec<u8> = secret.map(|secret| unhex(&secret.to_hex())).unwrap_or_default();
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).expect("any key");
    mac.update(b"pp-comm rendezvous proof");
    mac.update(&words);
    mac.update(&[secret.is_some().into()]);
    for word in [first_word, challenge] {
        mac.update(&(word.len() as u64).to_le_bytes());
        mac.update(word);
    }
    mac.finalize().into_bytes().into()
}

fn put(bytes: &mut Vec<u8>, value: &[u8]) {
    bytes.extend((value.len() as u64).to_le_bytes());
    bytes.extend(value);
}

fn unhex(text: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal");
    (0..text.len()).step_by(2).map(digit).collect()
}
