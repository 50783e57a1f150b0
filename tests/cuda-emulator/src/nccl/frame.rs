//! What ranks tell each other, and how it is written: a length, a letter, then fields in little-endian order.

use std::io::{self, Read};

use crate::clock::{Actor, Clock};

/// The longest frame that is believed: a longer one is a broken connection.
const LONGEST: usize = 1 << 31;

/// Which of a rank's counts an operation is numbered in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Lane {
    /// Sends to the peer.
    Send,
    /// Receives from the peer.
    Receive,
    /// What all ranks do together.
    Together,
    /// Divisions of the communicator.
    Split,
}

/// An operation between two ranks, as the rank that tells of it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) lane: Lane,
    pub(crate) number: u64,
}

/// An operation has begun on a rank.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Begun {
    pub(crate) key: Key,
    /// What must be the same on both ends, as numbers: kind, count, type, reduction, root.
    pub(crate) shape: [i64; 5],
    /// In words, with the rank, the communicator and the operation's number there.
    pub(crate) what: String,
    /// What is ordered before it there.
    pub(crate) clock: Clock,
}

/// What one rank tells another.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Frame {
    /// An operation has begun.
    Begun(Begun),
    /// What an operation moves.
    Data { key: Key, bytes: Vec<u8> },
    /// The ranks do not agree on an operation: both sides, in words.
    Mismatch(String),
    /// No more will come.
    Goodbye,
    /// What do you wait for?
    Ask,
    /// That is what is waited for here.
    Tell(String),
}

impl Frame {
    /// As bytes, the length first.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; 4];
        match self {
            Self::Begun(begun) => {
                out.push(b'B');
                put_key(&mut out, begun.key);
                for number in begun.shape {
                    out.extend(number.to_le_bytes());
                }
                put_bytes(&mut out, begun.what.as_bytes());
                let entries = begun.clock.entries();
                out.extend((entries.len() as u64).to_le_bytes());
                for (actor, count) in entries {
                    for number in [actor.process, actor.number, count] {
                        out.extend(number.to_le_bytes());
                    }
                }
            }
            Self::Data { key, bytes } => {
                out.push(b'D');
                put_key(&mut out, *key);
                put_bytes(&mut out, bytes);
            }
            Self::Mismatch(text) => {
                out.push(b'M');
                put_bytes(&mut out, text.as_bytes());
            }
            Self::Goodbye => out.push(b'G'),
            Self::Ask => out.push(b'A'),
            Self::Tell(text) => {
                out.push(b'T');
                put_bytes(&mut out, text.as_bytes());
            }
        }
        let length = u32::try_from(out.len() - 4).unwrap_or(u32::MAX);
        out[..4].copy_from_slice(&length.to_le_bytes());
        out
    }

    /// The next frame of a stream; none at its end.
    ///
    /// # Errors
    /// What the stream says, and what is no frame.
    pub(crate) fn read(from: &mut impl Read) -> io::Result<Option<Self>> {
        let mut length = [0; 4];
        match from.read_exact(&mut length) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        }
        let length = u32::from_le_bytes(length) as usize;
        if length > LONGEST {
            return Err(broken("a frame is too long"));
        }
        let mut body = vec![0; length];
        from.read_exact(&mut body)?;
        decode(&mut Fields(&body)).map(Some)
    }
}

fn put_key(out: &mut Vec<u8>, key: Key) {
    out.push(key.lane as u8);
    out.extend(key.number.to_le_bytes());
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend((bytes.len() as u64).to_le_bytes());
    out.extend_from_slice(bytes);
}

fn broken(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn decode(fields: &mut Fields<'_>) -> io::Result<Frame> {
    Ok(match fields.byte()? {
        b'B' => {
            let key = fields.key()?;
            let mut shape = [0; 5];
            for number in &mut shape {
                *number = fields.number()? as i64;
            }
            let what = fields.text()?;
            let n_entries = fields.number()?;
            let mut entries = Vec::new();
            for _ in 0..n_entries {
                let actor = Actor { process: fields.number()?, number: fields.number()? };
                entries.push((actor, fields.number()?));
            }
            Frame::Begun(Begun { key, shape, what, clock: entries.into_iter().collect() })
        }
        b'D' => Frame::Data { key: fields.key()?, bytes: fields.bytes()?.to_vec() },
        b'M' => Frame::Mismatch(fields.text()?),
        b'G' => Frame::Goodbye,
        b'A' => Frame::Ask,
        b'T' => Frame::Tell(fields.text()?),
        _ => return Err(broken("a frame begins with no letter that is known")),
    })
}

/// What is left of a frame.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, n_bytes: usize) -> io::Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(n_bytes).ok_or_else(|| broken("a frame is too short"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> io::Result<u8> {
        Ok(self.take(1)?[0])
    }

    fn number(&mut self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(self.take(8)?);
        Ok(u64::from_le_bytes(bytes))
    }

    fn bytes(&mut self) -> io::Result<&'a [u8]> {
        let n_bytes = usize::try_from(self.number()?).map_err(|_| broken("a field is too long"))?;
        self.take(n_bytes)
    }

    fn text(&mut self) -> io::Result<String> {
        Ok(String::from_utf8_lossy(self.bytes()?).into_owned())
    }

    fn key(&mut self) -> io::Result<Key> {
        let lane = match self.byte()? {
            0 => Lane::Send,
            1 => Lane::Receive,
            2 => Lane::Together,
            3 => Lane::Split,
            _ => return Err(broken("no such lane")),
        };
        Ok(Key { lane, number: self.number()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames() -> Vec<Frame> {
        let key = Key { lane: Lane::Together, number: 7 };
        let clock = [(Actor { process: 3, number: 1 }, 9), (Actor { process: 3, number: 2 }, 1)].into_iter().collect();
        vec![
            Frame::Begun(Begun { key, shape: [1, -1, 3, 0, i64::MAX], what: "a send".into(), clock }),
            Frame::Data { key: Key { lane: Lane::Send, number: 0 }, bytes: vec![1, 2, 3] },
            Frame::Data { key: Key { lane: Lane::Receive, number: 1 }, bytes: Vec::new() },
            Frame::Data { key: Key { lane: Lane::Split, number: 1 }, bytes: vec![0] },
            Frame::Mismatch("this and that".into()),
            Frame::Goodbye,
            Frame::Ask,
            Frame::Tell("nothing".into()),
        ]
    }

    #[test]
    fn what_is_written_is_read() {
        let bytes: Vec<u8> = frames().iter().flat_map(Frame::encode).collect();
        let mut from = bytes.as_slice();
        for frame in frames() {
            assert_eq!(Frame::read(&mut from).unwrap(), Some(frame));
        }
        assert_eq!(Frame::read(&mut from).unwrap(), None);
    }

    #[test]
    fn a_frame_cut_short_anywhere_is_no_frame() {
        for frame in frames() {
            let bytes = frame.encode();
            for length in 4..bytes.len() {
                assert!(Frame::read(&mut &bytes[..length]).is_err(), "{frame:?} cut to {length}");
                // Also where the length says that this is all.
                let mut short = bytes[..length].to_vec();
                short[..4].copy_from_slice(&(length as u32 - 4).to_le_bytes());
                assert!(Frame::read(&mut short.as_slice()).is_err(), "{frame:?} ends after {length}");
            }
        }
    }
}
