//! The frames of the connections between a rank and the host, and of the first words on a link: length-bounded, small.
//!
//! | bytes | what |
//! | --- | --- |
//! | 0..4 | `PPMC` |
//! | 4 | the kind |
//! | 5..8 | zero |
//! | 8..12 | the rank it is about |
//! | 12..16 | zero |
//! | 16..24 | the number of the collective it belongs to |
//! | 24..32 | how many bytes of payload follow |
//!
//! All numbers are little-endian. Each kind has its own bound on the payload; a reader says which kinds it takes, and knows
//! from the head alone whether a frame is one of them.

use std::io::{self, Read, Write};

/// Bytes before a frame's payload.
const HEAD_LEN: usize = 32;
const MAGIC: [u8; 4] = *b"PPMC";

/// Reserved at most before a payload arrives; beyond it memory grows with what really came.
const RESERVE: u64 = 1 << 20;

/// The most bytes one rank may give to an all-gather (1 GiB).
pub const MAX_COLLECTIVE_BYTES: u64 = 1 << 30;

/// The most bytes of anything that is said before both sides know each other, head included.
pub(crate) const MAX_STRANGER_BYTES: usize = 4096;

/// What a frame says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// Rank to host, first: who it is and what it runs.
    Hello = 1,
    /// Host to rank: everybody is here, and fits.
    Welcome = 2,
    /// Host to rank: the run cannot start, or not with this rank.
    Refused = 3,
    /// Rank to rank, first on a link.
    Link = 4,
    /// Rank to host: it has reached a barrier.
    Barrier = 5,
    /// Rank to host: its part of an all-gather.
    AllGather = 6,
    /// Host to rank: one rank's part of a complete collective.
    Part = 7,
    /// Host to rank: a rank is gone.
    Lost = 8,
    /// Host to rank: a collective took too long.
    Expired = 9,
    /// Host to rank: ranks asked for different collectives.
    Mismatch = 10,
    /// Rank to host, last: it leaves in good order.
    Goodbye = 11,
    /// The answer to a first word: what the proof must be made over.
    Challenge = 12,
    /// The proof of whoever called that it knows the secret.
    Proof = 13,
    /// The proof of whoever was called, once the caller's was right.
    Proven = 14,
    /// Rank to host, several times per heartbeat: it lives, and what it did last.
    Beat = 15,
    /// Host to rank, several times per heartbeat: it lives, and what the ranks did last.
    News = 16,
    /// Rank to host: it fails, and why.
    Abort = 17,
    /// Rank to rank, on a link that is theirs: what its bytes may go through.
    Way = 18,
}

impl Kind {
    const ALL: [Self; 18] = [
        Self::Hello,
        Self::Welcome,
        Self::Refused,
        Self::Link,
        Self::Barrier,
        Self::AllGather,
        Self::Part,
        Self::Lost,
        Self::Expired,
        Self::Mismatch,
        Self::Goodbye,
        Self::Challenge,
        Self::Proof,
        Self::Proven,
        Self::Beat,
        Self::News,
        Self::Abort,
        Self::Way,
    ];

    /// The most bytes of its payload.
    const fn limit(self) -> u64 {
        match self {
            Self::Barrier | Self::Goodbye => 0,
            Self::Hello | Self::Link | Self::Challenge | Self::Proof | Self::Proven => {
                (MAX_STRANGER_BYTES - HEAD_LEN) as u64
            }
            Self::Way => 1 << 10,
            Self::Beat | Self::Abort | Self::Lost => 1 << 12,
            // A list of ranks, or a few lines about some of them.
            Self::Refused | Self::Expired | Self::Mismatch | Self::News => 1 << 16,
            // Addresses and certificates of very many ranks.
            Self::Welcome => 1 << 24,
            // With the byte that says of what type they are.
            Self::AllGather | Self::Part => MAX_COLLECTIVE_BYTES + 1,
        }
    }
}

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: Kind,
    /// The rank it is about.
    pub(crate) rank: u32,
    /// The number of the collective it belongs to.
    pub(crate) round: u64,
    pub(crate) payload: Vec<u8>,
}

/// What stands before a payload.
struct Head {
    kind: Kind,
    rank: u32,
    round: u64,
    len: u64,
}

impl Head {
    fn decode(bytes: &[u8; HEAD_LEN], accepts: &[Kind]) -> io::Result<Self> {
        if bytes[0..4] != MAGIC || bytes[5..8] != [0; 3] {
            return Err(invalid("not a frame of this protocol".to_owned()));
        }
        let kind = Kind::ALL.into_iter().find(|kind| *kind as u8 == bytes[4]);
        let kind = kind.ok_or_else(|| invalid(format!("a frame of unknown kind {}", bytes[4])))?;
        if !accepts.contains(&kind) {
            return Err(invalid(format!("a frame of kind {kind:?}, which has no place here")));
        }
        let mut fields = Fields(&bytes[8..]);
        let (rank, zero, round, len) = (fields.u32()?, fields.u32()?, fields.u64()?, fields.u64()?);
        if zero != 0 {
            return Err(invalid("not a frame of this protocol".to_owned()));
        }
        let limit = kind.limit();
        if len > limit {
            return Err(invalid(format!("a frame of kind {kind:?} with {len} bytes where at most {limit} may come")));
        }
        Ok(Self { kind, rank, round, len })
    }

    fn with(self, payload: Vec<u8>) -> Frame {
        Frame { kind: self.kind, rank: self.rank, round: self.round, payload }
    }
}

/// The bytes of a frame.
pub(crate) fn encode_frame(kind: Kind, rank: u32, round: u64, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEAD_LEN + payload.len());
    bytes.extend(MAGIC);
    bytes.extend([kind as u8, 0, 0, 0]);
    bytes.extend(rank.to_le_bytes());
    bytes.extend([0; 4]);
    bytes.extend(round.to_le_bytes());
    bytes.extend((payload.len() as u64).to_le_bytes());
    bytes.extend(payload);
    bytes
}

/// Writes a frame, in one piece if it is small.
pub(crate) fn write_frame(
    stream: &mut impl Write,
    kind: Kind,
    rank: u32,
    round: u64,
    payload: &[u8],
) -> io::Result<()> {
    stream.write_all(&encode_frame(kind, rank, round, payload))
}

/// Reads a frame of one of the given kinds.
pub(crate) fn read_frame(stream: &mut impl Read, accepts: &[Kind]) -> io::Result<Frame> {
    let mut bytes = [0; HEAD_LEN];
    stream.read_exact(&mut bytes)?;
    let head = Head::decode(&bytes, accepts)?;
    let mut payload = Vec::new();
    payload.try_reserve_exact(head.len.min(RESERVE) as usize).map_err(|error| invalid(error.to_string()))?;
    if stream.take(head.len).read_to_end(&mut payload)? as u64 != head.len {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(head.with(payload))
}

/// A frame of one of the given kinds out of what has arrived so far; `None` while more must come. What goes beyond the
/// frame is an error: for use where the next word is the other side's.
pub(crate) fn parse_frame(bytes: &[u8], accepts: &[Kind]) -> io::Result<Option<Frame>> {
    let Some((head, payload)) = bytes.split_first_chunk::<HEAD_LEN>() else { return Ok(None) };
    let head = Head::decode(head, accepts)?;
    match (payload.len() as u64).cmp(&head.len) {
        std::cmp::Ordering::Less => Ok(None),
        std::cmp::Ordering::Equal => Ok(Some(head.with(payload.to_vec()))),
        std::cmp::Ordering::Greater => Err(invalid("more than one frame at once".to_owned())),
    }
}

/// Bytes that break the protocol.
pub(crate) fn invalid(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// The fields of a payload, written one after the other.
#[derive(Debug, Default)]
pub(crate) struct Payload(pub(crate) Vec<u8>);

impl Payload {
    pub(crate) fn u32(mut self, value: u32) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    pub(crate) fn u64(mut self, value: u64) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    pub(crate) fn u128(mut self, value: u128) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    /// Bytes of a known number, as they are.
    pub(crate) fn array<const N: usize>(mut self, value: &[u8; N]) -> Self {
        self.0.extend(value);
        self
    }

    /// Bytes with their length before them.
    pub(crate) fn bytes(self, value: &[u8]) -> Self {
        let mut with_len = self.u64(value.len() as u64);
        with_len.0.extend(value);
        with_len
    }
}

/// The same fields, read back.
#[derive(Debug)]
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn u32(&mut self) -> io::Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> io::Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(crate) fn u128(&mut self) -> io::Result<u128> {
        Ok(u128::from_le_bytes(self.array()?))
    }

    pub(crate) fn bytes(&mut self) -> io::Result<&'a [u8]> {
        let len = self.u64()?;
        let len = usize::try_from(len).ok().filter(|&len| len <= self.0.len());
        let (bytes, rest) = self.0.split_at(len.ok_or_else(|| invalid("a payload that ends early".to_owned()))?);
        self.0 = rest;
        Ok(bytes)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let (array, rest) =
            self.0.split_first_chunk().ok_or_else(|| invalid("a payload that ends early".to_owned()))?;
        self.0 = rest;
        Ok(*array)
    }
}

/// Reads a frame out of any bytes by either reader; what both take is written back as it was.
///
/// # Panics
/// When the readers disagree, or a frame does not survive.
pub fn fuzz(bytes: &[u8]) {
    let (streamed, parsed) = (read_frame(&mut &bytes[..], &Kind::ALL), parse_frame(bytes, &Kind::ALL));
    if let Ok(Some(frame)) = &parsed {
        assert_eq!(streamed.as_ref().ok(), Some(frame));
    }
    if let Ok(Frame { kind, rank, round, payload }) = streamed {
        let written = encode_frame(kind, rank, round, &payload);
        assert!(bytes.starts_with(&written) && payload.len() as u64 <= kind.limit());
        assert_eq!(matches!(parsed, Ok(Some(_))), written.len() == bytes.len());
    }
}

/// What random tests of parsers share.
#[cfg(test)]
pub(crate) mod random {
    /// A small generator (xorshift), so that the same inputs come again.
    pub(crate) struct Random(pub(crate) u64);

    impl Random {
        pub(crate) fn below(&mut self, bound: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 % bound as u64) as usize
        }

        /// A sample with some bytes changed, cut off, doubled, or all of them random.
        pub(crate) fn mutate(&mut self, samples: &[Vec<u8>]) -> Vec<u8> {
            let mut bytes = samples[self.below(samples.len())].clone();
            match self.below(8) {
                0 => bytes.truncate(self.below(bytes.len() + 1)),
                1 => bytes.extend_from_within(self.below(bytes.len() + 1)..),
                2 => bytes.iter_mut().for_each(|byte| *byte = self.below(256) as u8),
                _ => {}
            }
            for _ in 0..self.below(4) {
                if !bytes.is_empty() {
                    let at = self.below(bytes.len());
                    bytes[at] = [0, 1, 127, 255, self.below(256) as u8][self.below(5)];
                }
            }
            bytes
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_round_trips_through_either_reader() {
        let payload = Payload::default().u32(7).u64(1 << 40).u128(3).array(&[1, 2, 3]).bytes(b"text").0;
        let mut bytes = Vec::new();
        write_frame(&mut bytes, Kind::Part, 5, 9, &payload).expect("a vector takes everything");
        let frame = read_frame(&mut bytes.as_slice(), &[Kind::Lost, Kind::Part]).expect("what was written");
        assert_eq!(parse_frame(&bytes, &[Kind::Part]).expect("what was written"), Some(frame.clone()));
        assert_eq!(frame, Frame { kind: Kind::Part, rank: 5, round: 9, payload });
        let mut fields = Fields(&frame.payload);
        assert_eq!((fields.u32().ok(), fields.u64().ok(), fields.u128().ok()), (Some(7), Some(1 << 40), Some(3)));
        assert_eq!((fields.array().ok(), fields.bytes().ok()), (Some([1, 2, 3]), Some(b"text".as_slice())));
        assert!(fields.u32().is_err());
    }

    #[test]
    fn long_short_foreign_and_misplaced_frames_are_refused() {
        let bytes = encode_frame(Kind::Hello, 0, 0, &[1; 100]);
        let refused = |bytes: &[u8]| {
            let by_parts = parse_frame(bytes, &[Kind::Hello]);
            assert!(read_frame(&mut &bytes[..], &[Kind::Hello]).is_err());
            by_parts.is_err()
        };
        for len in 0..bytes.len() {
            assert!(!refused(&bytes[..len]), "more may come");
        }
        let changed = |at: usize, to: u8| {
            let mut bytes = bytes.clone();
            bytes[at] = to;
            refused(&bytes)
        };
        assert!(changed(0, b'G'), "another protocol");
        assert!(changed(4, 99), "an unknown kind");
        assert!(changed(4, Kind::Part as u8), "a kind that has no place here");
        assert!(changed(6, 1) && changed(13, 1), "what must be zero");
        assert!(changed(25, 16), "longer than such a frame may be");
        assert!(parse_frame(&[bytes.as_slice(), &[0]].concat(), &[Kind::Hello]).is_err(), "more than one");
    }

    #[test]
    fn any_bytes_are_a_frame_or_an_error() {
        let samples: Vec<Vec<u8>> = Kind::ALL
            .into_iter()
            .map(|kind| encode_frame(kind, 3, 9, &[7; 40][..40.min(kind.limit() as usize)]))
            .collect();
        let mut random = random::Random(0x5eed);
        for _ in 0..150_000 {
            fuzz(&random.mutate(&samples));
        }
    }
}
