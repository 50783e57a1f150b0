//! The source's side of a link: what was posted, and how far it is.
//!
//! A send is complete when all its bytes have left **and** its receive was posted, as on a memory channel of capacity 0: what a
//! buffer on the way happens to hold decides nothing, so that a program which deadlocks does so at every size. Bytes leave
//! before that as far as there is room for them.

use std::collections::VecDeque;
use std::io;

use crate::endpoint::pipe::{Interest, Pipe};
use crate::message::{Buffer, HEADER_LEN, Label, encode};
use crate::numbered::Numbered;

/// A message on its way out.
#[derive(Debug)]
struct Frame {
    header: [u8; HEADER_LEN],
    buffer: Buffer,
    written: usize,
}

impl Frame {
    fn len(&self) -> usize {
        HEADER_LEN + self.payload().len()
    }

    /// No link is given a buffer that is not on the host ([`SocketTransport::post_send`](crate::endpoint::SocketTransport)).
    fn payload(&self) -> &[u8] {
        self.buffer.as_bytes().unwrap_or_default()
    }

    /// What of header and payload is still to be written.
    fn rest(&self) -> (&[u8], &[u8]) {
        let (header, payload) = (self.written.min(HEADER_LEN), self.written.saturating_sub(HEADER_LEN));
        (&self.header[header..], &self.payload()[payload..])
    }
}

/// The sends of a link.
#[derive(Debug, Default)]
pub(super) struct Sending {
    queue: VecDeque<Frame>,
    /// Buffers whose bytes have left, until they are taken back.
    written: Numbered<Buffer>,
    /// Bytes of all frames in the queue that wait to leave.
    n_waiting: usize,
    n_granted: u64,
}

impl Sending {
    /// Takes over a buffer; gives the send's number.
    pub(super) fn post(&mut self, label: Label, buffer: Buffer) -> u64 {
        let header = encode(label, buffer.boundary());
        let frame = Frame { header, buffer, written: 0 };
        self.n_waiting += frame.len();
        self.queue.push_back(frame);
        self.n_posted() - 1
    }

    fn n_posted(&self) -> u64 {
        self.written.n_come() + self.queue.len() as u64
    }

    /// The bytes that wait to leave.
    pub(super) const fn n_waiting(&self) -> usize {
        self.n_waiting
    }

    /// Whether the receive of what is to leave next was posted, looked at anew.
    pub(super) fn is_awaited(&mut self, pipe: &mut Pipe) -> io::Result<bool> {
        let next = self.written.n_come();
        if self.n_granted <= next {
            self.n_granted = pipe.granted(self.n_granted, next + 1)?;
        }
        Ok(self.n_granted > next)
    }

    /// Moves on, by about `quantum` bytes at most; whether anything moved.
    pub(super) fn advance(&mut self, pipe: &mut Pipe, quantum: usize) -> io::Result<bool> {
        let before = self.n_granted;
        let written = self.write(pipe, quantum);
        let wanted = self.written.n_come();
        // What is complete is so even if the rest can no longer be written.
        if self.n_granted < wanted {
            self.n_granted = pipe.granted(self.n_granted, wanted)?;
        }
        Ok(written? > 0 || self.n_granted > before)
    }

    /// Writes what there is room for, by about `quantum` bytes at most; says how many.
    fn write(&mut self, pipe: &mut Pipe, quantum: usize) -> io::Result<usize> {
        let mut moved = 0;
        while moved < quantum
            && let Some(frame) = self.queue.front_mut()
        {
            let (header, payload) = frame.rest();
            let room = (quantum - moved).saturating_sub(header.len());
            let n = pipe.write(header, &payload[..payload.len().min(room)])?;
            if n == 0 {
                break;
            }
            moved += n;
            frame.written += n;
            self.n_waiting -= n;
            if frame.written == frame.len()
                && let Some(frame) = self.queue.pop_front()
            {
                self.written.push(frame.buffer);
            }
        }
        Ok(moved)
    }

    /// Whether a send is complete.
    pub(super) fn has(&self, number: u64) -> bool {
        number < self.n_granted && self.written.has(number)
    }

    /// Nobody will ask for this buffer: it is let go as soon as its bytes have left.
    pub(super) fn abandon(&mut self, number: u64) {
        self.written.abandon(number);
    }

    /// The buffer of a send that is complete.
    pub(super) fn take(&mut self, number: u64) -> Option<Buffer> {
        if number < self.n_granted { self.written.take(number) } else { None }
    }

    #[cfg(test)]
    pub(super) fn n_held(&self) -> usize {
        self.written.n_held()
    }

    /// What it waits for.
    pub(super) fn interest(&self) -> Interest {
        Interest { read: self.n_granted < self.written.n_come(), write: !self.queue.is_empty() }
    }
}
