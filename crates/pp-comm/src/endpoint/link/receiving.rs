//! The destination's side of a link: what was asked for, and what has come.
//!
//! A frame is read only once its receive is posted, and its payload only once its header says that it is the one: what is
//! allocated follows from what both sides agreed on, never from what the peer says.

use std::collections::VecDeque;
use std::io;

use pp_schedule::Channel;
use pp_shm::Filling;

use crate::arrival::check_arrival;
use crate::endpoint::pipe::{Interest, Pipe};
use crate::error::CommError;
use crate::message::{Boundary, Buffer, HEADER_LEN, Incoming, Label, decode};
use crate::numbered::Numbered;

/// A receive that is not complete.
#[derive(Debug)]
struct Expected {
    label: Label,
    boundary: Boundary,
    /// Where it is to be received, if the caller gave a place.
    memory: Option<Buffer>,
}

impl Expected {
    fn n_bytes(&self) -> u64 {
        HEADER_LEN as u64 + self.boundary.n_bytes() as u64
    }
}

/// Why it cannot go on: the pipe, or what came through it.
pub(super) enum Stopped {
    Pipe(io::Error),
    Message(CommError),
}

impl From<CommError> for Stopped {
    fn from(error: CommError) -> Self {
        Self::Message(error)
    }
}

impl From<io::Error> for Stopped {
    fn from(error: io::Error) -> Self {
        Self::Pipe(error)
    }
}

/// The receives of a link.
#[derive(Debug)]
pub(super) struct Receiving {
    channel: Channel,
    queue: VecDeque<Expected>,
    /// Of the frame at the front.
    header: Filling<u8>,
    /// Its payload, once the header has come and says that it is the one.
    payload: Option<Incoming>,
    arrived: Numbered<Buffer>,
    /// Bytes of all frames in the queue that have not come.
    n_waiting: u64,
    /// Whether the source knows of all receives.
    all_granted: bool,
}

impl Receiving {
    pub(super) fn new(channel: Channel) -> io::Result<Self> {
        Ok(Self {
            channel,
            queue: VecDeque::new(),
            header: Filling::new(Vec::new(), HEADER_LEN).map_err(|_| io::ErrorKind::OutOfMemory)?,
            payload: None,
            arrived: Numbered::default(),
            n_waiting: 0,
            all_granted: true,
        })
    }

    /// Asks for the next message; gives the receive's number.
    pub(super) fn post(&mut self, label: Label, boundary: Boundary, memory: Option<Buffer>) -> u64 {
        let expected = Expected { label, boundary, memory };
        self.n_waiting += expected.n_bytes();
        self.queue.push_back(expected);
        self.all_granted = false;
        self.n_posted() - 1
    }

    fn n_posted(&self) -> u64 {
        self.arrived.n_come() + self.queue.len() as u64
    }

    /// Tells the source of all receives, as far as it can be told now.
    pub(super) fn grant(&mut self, pipe: &mut Pipe) {
        if !self.all_granted {
            self.all_granted = pipe.grant(self.n_posted());
        }
    }

    /// Moves on, by about `quantum` bytes at most; whether anything moved.
    pub(super) fn advance(&mut self, pipe: &mut Pipe, quantum: usize) -> Result<bool, Stopped> {
        self.grant(pipe);
        let mut moved = 0;
        while moved < quantum && !self.queue.is_empty() {
            let n = match &mut self.payload {
                None => self.header.fill(|room| pipe.read(room))?,
                Some(payload) => payload.fill(|room| {
                    let n = room.len().min(quantum - moved);
                    pipe.read(&mut room[..n])
                })?,
            };
            if n == 0 {
                break;
            }
            moved += n;
            self.n_waiting -= n as u64;
            self.turn_page()?;
        }
        Ok(moved > 0)
    }

    /// Goes on to the payload after a header that is complete, and to the next frame after a payload that is.
    fn turn_page(&mut self) -> Result<(), Stopped> {
        let header = self.header.as_full().and_then(|header| header.try_into().ok());
        if let (None, Some(header), Some(expected)) = (&self.payload, header, self.queue.front_mut()) {
            let channel = self.channel;
            let (found, sent) = decode(header).map_err(|fault| CommError::Malformed { channel, fault })?;
            check_arrival(channel, (expected.label, &expected.boundary), (found, &sent))?;
            self.payload = Some(Incoming::new(&sent, expected.memory.take()).map_err(CommError::from)?);
        }
        if let Some(payload) = self.payload.take_if(|payload| payload.is_full())
            && let Some(buffer) = payload.finish()
        {
            self.queue.pop_front();
            self.header.restart();
            self.arrived.push(buffer);
        }
        Ok(())
    }

    /// Bytes that may come without having been read: while they fit on the way, the source needs no help from here.
    pub(super) const fn n_waiting(&self) -> u64 {
        self.n_waiting
    }

    /// Whether a receive is complete.
    pub(super) fn has(&self, number: u64) -> bool {
        self.arrived.has(number)
    }

    /// Nobody will ask for this message: it is let go as soon as it has come.
    pub(super) fn abandon(&mut self, number: u64) {
        self.arrived.abandon(number);
    }

    /// The message of a receive that is complete.
    pub(super) fn take(&mut self, number: u64) -> Option<Buffer> {
        self.arrived.take(number)
    }

    #[cfg(test)]
    pub(super) fn n_held(&self) -> usize {
        self.arrived.n_held()
    }

    /// What it waits for.
    pub(super) fn interest(&self) -> Interest {
        Interest { read: !self.queue.is_empty(), write: !self.all_granted }
    }
}
