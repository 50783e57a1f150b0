//! The caller's side of the gate: says who it is, proves it, and has the other side prove itself.

use std::io::{self, Read};
use std::net::TcpStream;

use super::auth::{Challenge, Purpose, Role, Said};
use super::refusal::Refusal;
use super::secret::Secret;
use crate::alarm::Watch;
use crate::wire::{Kind, invalid, read_frame, write_frame};

/// Why a caller was not let in, or does not want to be.
#[derive(Debug)]
pub(super) enum NotIn {
    /// The connection ended or took too long, or something else than the protocol was spoken on it.
    Failed(io::Error),
    /// The other side said no. It has proved nothing.
    Refused(Refusal),
    /// The other side does not know the secret.
    WrongSecret,
}

impl From<io::Error> for NotIn {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

/// Says a first word, and proves the secret; gives the run that the other side, proved too, belongs to.
pub(super) fn knock<'a>(
    stream: &mut TcpStream,
    purpose: Purpose,
    first_word: &[u8],
    secret: Option<&Secret>,
    deadline: impl Into<Watch<'a>>,
) -> Result<u128, NotIn> {
    let deadline = deadline.into();
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(deadline.left()?))?;
    write_frame(stream, purpose.first_word(), 0, 0, first_word)?;
    let challenge = answer(stream, Kind::Challenge, deadline)?;
    let Challenge { run, .. } = Challenge::decode(&challenge)?;
    let said = Said { purpose, first_word, challenge: &challenge };
    write_frame(stream, Kind::Proof, 0, 0, &said.prove(secret, Role::Caller))?;
    let proof = answer(stream, Kind::Proven, deadline)?;
    if said.is_proof(secret, Role::Called, &proof) { Ok(run) } else { Err(NotIn::WrongSecret) }
}

/// The payload of the expected answer.
fn answer(stream: &TcpStream, kind: Kind, deadline: Watch<'_>) -> Result<Vec<u8>, NotIn> {
    let frame = read_frame(&mut Until { stream, deadline }, &[kind, Kind::Refused])?;
    if frame.kind == kind {
        return Ok(frame.payload);
    }
    Err(NotIn::Refused(Refusal::decode(&frame.payload)?))
}

/// Reads from a connection until a deadline or a loss, however the bytes drip.
pub(super) struct Until<'a> {
    pub(super) stream: &'a TcpStream,
    pub(super) deadline: Watch<'a>,
}

impl Read for Until<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let slice = self.deadline.slice().map_err(|error| match error.kind() {
                io::ErrorKind::TimedOut => io::Error::new(io::ErrorKind::TimedOut, "nothing came in time"),
                _ => error,
            })?;
            self.stream.set_read_timeout(Some(slice))?;
            match self.stream.read(buffer) {
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {}
                read => return read,
            }
        }
    }
}

impl NotIn {
    /// As an error of the connection, where nothing else matters.
    pub(super) fn into_error(self) -> io::Error {
        match self {
            Self::Failed(error) => error,
            Self::Refused(refusal) => invalid(refusal.to_string()),
            Self::WrongSecret => invalid("it does not know the run's secret".to_owned()),
        }
    }
}
