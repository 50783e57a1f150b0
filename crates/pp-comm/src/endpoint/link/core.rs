//! A link's state: its pipe, what is under way, and why it ended. Whoever holds it may move it on.

use std::io;

use pp_schedule::{Channel, Rank, Role};

use super::receiving::{Receiving, Stopped};
use super::sending::Sending;
use crate::alarm::Alarm;
use crate::endpoint::pipe::{Interest, Pipe};
use crate::error::CommError;
use crate::message::{Boundary, Buffer, Label};

/// The state.
#[derive(Debug)]
pub(super) struct Core {
    channel: Channel,
    pipe: Pipe,
    work: Work,
    fault: Option<CommError>,
    /// The endpoint is done with it.
    pub(super) stop: bool,
}

/// Of the two directions, a link's end has one.
#[derive(Debug)]
enum Work {
    Send(Sending),
    Receive(Receiving),
}

impl Core {
    pub(super) fn new(channel: Channel, role: Role, pipe: Pipe) -> io::Result<Self> {
        let work = match role {
            Role::Send => Work::Send(Sending::default()),
            Role::Receive => Work::Receive(Receiving::new(channel)?),
        };
        Ok(Self { channel, pipe, work, fault: None, stop: false })
    }

    pub(super) const fn pipe(&mut self) -> &mut Pipe {
        &mut self.pipe
    }

    pub(super) const fn name(&self) -> &'static str {
        self.pipe.name()
    }

    /// Takes over a buffer to be sent.
    pub(super) fn post_send(&mut self, label: Label, buffer: Buffer) -> Option<u64> {
        match &mut self.work {
            Work::Send(sending) => Some(sending.post(label, buffer)),
            Work::Receive(_) => None,
        }
    }

    /// Asks for a message, and says so to the source.
    pub(super) fn post_recv(&mut self, label: Label, boundary: Boundary, memory: Option<Buffer>) -> Option<u64> {
        let Work::Receive(receiving) = &mut self.work else { return None };
        let number = receiving.post(label, boundary, memory);
        receiving.grant(&mut self.pipe);
        Some(number)
    }

    /// The buffer of a transfer that is complete.
    pub(super) fn take(&mut self, number: u64) -> Option<Buffer> {
        match &mut self.work {
            Work::Send(sending) => sending.take(number),
            Work::Receive(receiving) => receiving.take(number),
        }
    }

    /// Whether a transfer is complete.
    pub(super) fn has(&self, number: u64) -> bool {
        match &self.work {
            Work::Send(sending) => sending.has(number),
            Work::Receive(receiving) => receiving.has(number),
        }
    }

    /// Nobody will ask for this transfer's buffer.
    pub(super) fn abandon(&mut self, number: u64) {
        match &mut self.work {
            Work::Send(sending) => sending.abandon(number),
            Work::Receive(receiving) => receiving.abandon(number),
        }
    }

    /// Whether the peer asks for what is to leave next.
    pub(super) fn is_awaited(&mut self) -> bool {
        let Work::Send(sending) = &mut self.work else { return false };
        let awaited = sending.is_awaited(&mut self.pipe);
        self.note(awaited.map_err(Stopped::from)).unwrap_or(false)
    }

    /// Moves on, by about `quantum` bytes at most; whether anything moved. Nothing does after a fault.
    pub(super) fn advance(&mut self, quantum: usize) -> bool {
        if self.fault.is_some() {
            return false;
        }
        let moved = match &mut self.work {
            Work::Send(sending) => sending.advance(&mut self.pipe, quantum).map_err(Stopped::from),
            Work::Receive(receiving) => receiving.advance(&mut self.pipe, quantum),
        };
        self.note(moved).unwrap_or(false)
    }

    /// Looks whether the peer is gone where that does not show by itself.
    pub(super) fn look_for_end(&mut self) {
        if self.fault.is_none() {
            let looked = self.pipe.look_for_end();
            self.note(looked.map_err(Stopped::from));
        }
    }

    /// Why nothing more will complete, also where that would only show to whoever waits for something.
    #[cfg(feature = "nccl")]
    pub(super) fn foreseen_fault(&self, alarm: &Alarm) -> Option<CommError> {
        let left = || self.pipe.is_left().then(|| lost(self.peer(), &io::ErrorKind::UnexpectedEof.into()));
        self.fault(alarm).or_else(left)
    }

    /// Keeps why it stopped, if it did.
    fn note<T>(&mut self, done: Result<T, Stopped>) -> Option<T> {
        match done {
            Ok(done) => return Some(done),
            Err(Stopped::Message(fault)) => self.fault = Some(fault),
            Err(Stopped::Pipe(error)) => self.fault = Some(lost(self.peer(), &error)),
        }
        None
    }

    const fn peer(&self) -> Rank {
        match self.work {
            Work::Send(_) => self.channel.destination,
            Work::Receive(_) => self.channel.source,
        }
    }

    /// Whether the link itself has failed.
    pub(super) const fn has_failed(&self) -> bool {
        self.fault.is_some()
    }

    /// Why nothing more will complete, if that is so. A lost rank that the host names comes before a peer that may only have
    /// left because of it; a fault of the message itself comes before both.
    pub(super) fn fault(&self, alarm: &Alarm) -> Option<CommError> {
        match (&self.fault, alarm.loss()) {
            (None | Some(CommError::PeerLost { .. }), Some(loss)) => Some(loss.into()),
            (fault, _) => fault.clone(),
        }
    }

    /// Whether the peer could be held up unless somebody moves this on: something is to be written, or more is to come than
    /// fits on the way.
    pub(super) fn needs_a_hand(&self) -> bool {
        self.fault.is_none()
            && match &self.work {
                Work::Send(sending) => sending.interest().write,
                Work::Receive(receiving) => receiving.interest().write || receiving.n_waiting() > self.pipe.slack(),
            }
    }

    /// Bytes to be written.
    pub(super) fn n_to_write(&self) -> usize {
        match &self.work {
            Work::Send(sending) => sending.n_waiting(),
            Work::Receive(_) => 0,
        }
    }

    #[cfg(test)]
    pub(super) fn n_held(&self) -> usize {
        match &self.work {
            Work::Send(sending) => sending.n_held(),
            Work::Receive(receiving) => receiving.n_held(),
        }
    }

    /// Whether all that was posted is complete.
    pub(super) fn is_settled(&self) -> bool {
        let Interest { read, write } = self.interest();
        !self.has_failed() && !read && !write
    }

    /// What it waits for.
    pub(super) fn interest(&self) -> Interest {
        match &self.work {
            Work::Send(sending) => sending.interest(),
            Work::Receive(receiving) => receiving.interest(),
        }
    }
}

fn lost(rank: Rank, error: &io::Error) -> CommError {
    // Which of these the system says depends on what was on the way when the peer left, and on the transport.
    let reason = match error.kind() {
        io::ErrorKind::UnexpectedEof
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionAborted
        | io::ErrorKind::BrokenPipe => "it closed the connection".to_owned(),
        _ => format!("the connection failed: {error}"),
    };
    CommError::PeerLost { rank, reason }
}
