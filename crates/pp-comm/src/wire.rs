//! The frames of the connections between a rank and the host, and of the first words on a link: length-bounded, small.

use std::io::{self, Read, Write};

/// Bytes before a frame's payload.
const HEAD_LEN: usize = 32;
const MAGIC: [u8; 4] = *b"PPMC";

/// Reserved at most before a payload arrives; beyond it memory grows with what really came.
const RESERVE: u64 = 1 << 20;

/// What a frame says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// Rank to host, first: who it is and what it runs.
    Hello = 1,
    /// Host to rank: everybody is here, and fits.
    Welcome = 2,
    /// Host to rank: the run cannot start.
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
}

impl Kind {
    const ALL: [Self; 11] = [
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
    ];
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

/// Writes a frame.
pub(crate) fn write_frame(
    stream: &mut impl Write,
    kind: Kind,
    rank: u32,
    round: u64,
    payload: &[u8],
) -> io::Result<()> {
    let mut head = [0; HEAD_LEN];
    head[0..4].copy_from_slice(&MAGIC);
    head[4] = kind as u8;
    head[8..12].copy_from_slice(&rank.to_le_bytes());
    head[16..24].copy_from_slice(&round.to_le_bytes());
    head[24..32].copy_from_slice(&(payload.len() as u64).to_le_bytes());
    // Small frames leave in one piece.
    let mut stream = io::BufWriter::new(stream);
    stream.write_all(&head)?;
    stream.write_all(payload)?;
    stream.flush()
}

/// Reads a frame whose payload has at most `limit` bytes.
pub(crate) fn read_frame(stream: &mut impl Read, limit: u64) -> io::Result<Frame> {
    let mut head = [0; HEAD_LEN];
    stream.read_exact(&mut head)?;
    if head[0..4] != MAGIC {
        return Err(invalid("not a frame of this protocol".to_owned()));
    }
    let kind = Kind::ALL.into_iter().find(|kind| *kind as u8 == head[4]);
    let kind = kind.ok_or_else(|| invalid(format!("a frame of unknown kind {}", head[4])))?;
    let mut fields = Fields(&head[8..]);
    let (rank, _) = (fields.u32()?, fields.u32()?);
    let (round, len) = (fields.u64()?, fields.u64()?);
    if len > limit {
        return Err(invalid(format!("a frame of {len} bytes where at most {limit} may come")));
    }
    let mut payload = Vec::new();
    payload.try_reserve_exact(len.min(RESERVE) as usize).map_err(|error| invalid(error.to_string()))?;
    if stream.take(len).read_to_end(&mut payload)? as u64 != len {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Frame { kind, rank, round, payload })
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

    fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let (array, rest) =
            self.0.split_first_chunk().ok_or_else(|| invalid("a payload that ends early".to_owned()))?;
        self.0 = rest;
        Ok(*array)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_round_trips() {
        let payload = Payload::default().u32(7).u64(1 << 40).u128(3).bytes(b"text").0;
        let mut bytes = Vec::new();
        write_frame(&mut bytes, Kind::Part, 5, 9, &payload).expect("a vector takes everything");
        let frame = read_frame(&mut bytes.as_slice(), 1000).expect("what was written");
        assert_eq!(frame, Frame { kind: Kind::Part, rank: 5, round: 9, payload });
        let mut fields = Fields(&frame.payload);
        assert_eq!((fields.u32().ok(), fields.u64().ok(), fields.u128().ok()), (Some(7), Some(1 << 40), Some(3)));
        assert_eq!(fields.bytes().ok(), Some(b"text".as_slice()));
        assert!(fields.u32().is_err());
    }

    #[test]
    fn long_short_and_foreign_frames_are_refused() {
        let mut bytes = Vec::new();
        write_frame(&mut bytes, Kind::Hello, 0, 0, &[1; 100]).expect("a vector takes everything");
        assert!(read_frame(&mut bytes.as_slice(), 99).is_err(), "longer than the limit");
        assert!(read_frame(&mut &bytes[..bytes.len() - 1], 100).is_err(), "cut off");
        let mut foreign = bytes.clone();
        foreign[..4].copy_from_slice(b"GET ");
        assert!(read_frame(&mut foreign.as_slice(), 100).is_err(), "another protocol");
        let mut unknown = bytes;
        unknown[4] = 99;
        assert!(read_frame(&mut unknown.as_slice(), 100).is_err(), "an unknown kind");
    }
}
