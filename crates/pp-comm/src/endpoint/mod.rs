//! A rank's ends of the program's channels.
//!
//! Sends and receives are posted without waiting and waited for later; what is in flight belongs to the endpoint until
//! then. On each channel they match in the order in which they are posted, and every message is checked against what
//! the receive expects.

mod arrival;
mod faults;
mod link;
mod links;
mod meddler;
mod memory;
mod numbered;
mod pipe;

use std::marker::PhantomData;
use std::time::Duration;

use pp_schedule::{Channel, Rank, Role};

use crate::error::{CommError, Operation};
use crate::flight::{Recorder, State, Subject};
use crate::message::{Boundary, Buffer, Label};

use arrival::check_arrival;
pub use faults::{Fault, FaultError};
pub(crate) use links::SocketTransport;
use meddler::{Meddled, Meddler};
pub(crate) use memory::MemoryTransport;
pub(crate) use pipe::Pipe;
pub use pipe::{RoughLinks, Transports};

/// A rank's ends of its channels: in memory, in memory shared with other processes, or over sockets.
///
/// It stays on the thread that made it (some transports must); to leave in good order, call [`Endpoint::close`]. Dropped
/// without that, the rank counts as lost.
#[derive(Debug)]
pub struct Endpoint {
    rank: Rank,
    /// The channels that start or end here, ascending.
    channels: Vec<Channel>,
    deadline: Duration,
    recorder: Recorder,
    meddler: Meddler,
    transport: Transport,
    one_thread: PhantomData<*const ()>,
}

/// The transports there are: a closed set, so that programs need no type parameter for them.
#[derive(Debug)]
enum Transport {
    Memory(MemoryTransport),
    Socket(SocketTransport),
}

/// A send in flight.
#[derive(Debug)]
#[must_use = "a send is complete only once it was waited for"]
pub struct SendTicket {
    operation: Operation,
    number: u64,
    n_bytes: u64,
    /// What did not leave on purpose: a rehearsal.
    lost: Option<Buffer>,
}

/// A receive in flight.
#[derive(Debug)]
#[must_use = "a receive gives its message only when it is waited for"]
pub struct RecvTicket {
    operation: Operation,
    boundary: Boundary,
    number: u64,
}

impl Endpoint {
    pub(crate) fn memory(
        channels: Vec<Channel>,
        deadline: Duration,
        recorder: Recorder,
        transport: MemoryTransport,
    ) -> Self {
        Self::new(channels, deadline, recorder, Transport::Memory(transport))
    }

    pub(crate) fn socket(
        channels: Vec<Channel>,
        deadline: Duration,
        recorder: Recorder,
        transport: SocketTransport,
    ) -> Self {
        Self::new(channels, deadline, recorder, Transport::Socket(transport))
    }

    fn new(channels: Vec<Channel>, deadline: Duration, recorder: Recorder, transport: Transport) -> Self {
        let meddler = Meddler::default();
        Self { rank: recorder.rank(), channels, deadline, recorder, meddler, transport, one_thread: PhantomData }
    }

    /// Has a failure rehearsed, if it is one of this rank's: something is done to one of its messages, or to its process.
    /// Leave what a seed chooses to [`Fault::among`].
    pub fn inject(&mut self, fault: Fault) {
        if fault.rank() != Some(self.rank) {
            return;
        }
        match fault.trigger() {
            Some(trigger) => self.recorder.set_trigger(trigger),
            None => self.meddler = Meddler::new(fault),
        }
    }

    /// Whether a failure was to be rehearsed on this rank, and its place has not come so far.
    pub fn has_fault_left(&self) -> bool {
        self.meddler.is_left() || self.recorder.has_trigger_left()
    }

    /// What this rank did last, transfers included.
    pub const fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// The rank it belongs to.
    pub const fn rank(&self) -> Rank {
        self.rank
    }

    /// The channels it has an end of.
    pub fn channels(&self) -> &[Channel] {
        &self.channels
    }

    /// What a channel of this rank goes over, for reports: `memory`, `shared memory` or `tcp`.
    pub fn transport_of(&self, channel: Channel) -> Option<&'static str> {
        let link = self.channels.iter().position(|&known| known == channel)?;
        Some(match &self.transport {
            Transport::Memory(_) => "memory",
            Transport::Socket(socket) => socket.name(link),
        })
    }

    /// How long each wait may last.
    pub const fn deadline(&self) -> Duration {
        self.deadline
    }

    /// Sets how long each wait from now on may last.
    pub const fn set_deadline(&mut self, deadline: Duration) {
        self.deadline = deadline;
    }

    /// Starts a send.
    ///
    /// # Errors
    /// [`CommError::NoChannel`], [`CommError::WrongEnd`], or what the channel already failed with.
    pub fn post_send(
        &mut self,
        channel: Channel,
        label: impl Into<Label>,
        buffer: Buffer,
    ) -> Result<SendTicket, CommError> {
        let (link, label, n_bytes) =
            (self.link(channel, Role::Send)?, label.into(), buffer.boundary().n_bytes() as u64);
        let (number, lost) = match self.meddler.meddle(buffer)? {
            Meddled::Sent(buffer) => (self.hand_over(link, label, buffer)?, None),
            Meddled::Twice(buffer) => {
                let number = self.hand_over(link, label, buffer.clone())?;
                self.hand_over(link, label, buffer)?;
                (number, None)
            }
            Meddled::Lost(buffer) => (0, Some(buffer)),
        };
        let operation = Operation { role: Role::Send, channel, label };
        self.recorder.note(Subject::Transfer(operation), State::Posted, n_bytes);
        Ok(SendTicket { operation, number, n_bytes, lost })
    }

    fn hand_over(&mut self, link: usize, label: Label, buffer: Buffer) -> Result<u64, CommError> {
        match &mut self.transport {
            Transport::Memory(memory) => Ok(memory.post_send(link, label, buffer)),
            Transport::Socket(socket) => socket.post_send(link, label, buffer),
        }
    }

    /// Starts a receive of a message that both sides agreed to be `boundary`.
    ///
    /// # Errors
    /// As [`Endpoint::post_send`].
    pub fn post_recv(
        &mut self,
        channel: Channel,
        label: impl Into<Label>,
        boundary: Boundary,
    ) -> Result<RecvTicket, CommError> {
        self.start_recv(channel, label.into(), boundary, None)
    }

    /// Starts a receive into the memory of a buffer, whose type and shape are what both sides agreed on. What it held is
    /// gone, also when the receive fails. In memory channels the sender's buffer comes as it is, and this one is dropped.
    ///
    /// # Errors
    /// As [`Endpoint::post_send`].
    pub fn post_recv_into(
        &mut self,
        channel: Channel,
        label: impl Into<Label>,
        buffer: Buffer,
    ) -> Result<RecvTicket, CommError> {
        self.start_recv(channel, label.into(), buffer.boundary().clone(), Some(buffer))
    }

    fn start_recv(
        &mut self,
        channel: Channel,
        label: Label,
        boundary: Boundary,
        memory: Option<Buffer>,
    ) -> Result<RecvTicket, CommError> {
        let link = self.link(channel, Role::Receive)?;
        let number = match &mut self.transport {
            Transport::Memory(fabric) => fabric.post_recv(link),
            Transport::Socket(socket) => socket.post_recv(link, label, boundary.clone(), memory)?,
        };
        let operation = Operation { role: Role::Receive, channel, label };
        self.recorder.note(Subject::Transfer(operation), State::Posted, boundary.n_bytes() as u64);
        Ok(RecvTicket { operation, boundary, number })
    }

    /// Waits until a send is complete, which is when all of it has left and its receive was posted, whatever could be buffered
    /// on the way: what works does so at every size. Gives the buffer back, which belongs to the endpoint until then.
    ///
    /// # Errors
    /// [`CommError::Deadline`], [`CommError::PeerLost`], or what else the channel failed with.
    pub fn wait_send(&mut self, ticket: SendTicket) -> Result<Buffer, CommError> {
        let SendTicket { operation, number, n_bytes, lost } = ticket;
        self.recorded(operation, n_bytes, |endpoint| {
            if let Some(buffer) = lost {
                return Ok(buffer);
            }
            let link = endpoint.link(operation.channel, Role::Send)?;
            let sent = match &mut endpoint.transport {
                Transport::Memory(memory) => memory.wait_send(link, number, endpoint.deadline)?,
                Transport::Socket(socket) => socket.wait(link, number, endpoint.deadline)?,
            };
            sent.ok_or(CommError::Deadline { operation, limit: endpoint.deadline })
        })
    }

    /// Waits for a message.
    ///
    /// # Errors
    /// [`CommError::Deadline`], [`CommError::PeerLost`], [`CommError::WrongMessage`] and [`CommError::WrongBoundary`]
    /// when something else arrived than was expected, or what else the channel failed with.
    pub fn wait_recv(&mut self, ticket: RecvTicket) -> Result<Buffer, CommError> {
        let RecvTicket { operation, boundary, number } = ticket;
        self.recorded(operation, boundary.n_bytes() as u64, |endpoint| {
            let link = endpoint.link(operation.channel, Role::Receive)?;
            let received = match &mut endpoint.transport {
                Transport::Memory(memory) => {
                    let found = memory.wait_recv(link, number, endpoint.deadline)?;
                    found.map(|(found, buffer)| {
                        check_arrival(operation.channel, (operation.label, &boundary), (found, buffer.boundary()))
                            .map(|()| buffer)
                    })
                }
                Transport::Socket(socket) => socket.wait(link, number, endpoint.deadline)?.map(Ok),
            };
            received.unwrap_or(Err(CommError::Deadline { operation, limit: endpoint.deadline }))
        })
    }

    /// Has the recorder keep how a wait begins and ends.
    fn recorded<R>(
        &mut self,
        operation: Operation,
        n_bytes: u64,
        wait: impl FnOnce(&mut Self) -> Result<R, CommError>,
    ) -> Result<R, CommError> {
        let subject = Subject::Transfer(operation);
        self.recorder.note(subject, State::Begun, n_bytes);
        let done = wait(self);
        self.recorder.note(subject, if done.is_ok() { State::Done } else { State::Failed }, n_bytes);
        done
    }

    /// Leaves in good order. Whoever still waits for this rank gets [`CommError::PeerLost`].
    pub fn close(self) {
        match self.transport {
            Transport::Memory(memory) => memory.close(),
            Transport::Socket(socket) => socket.close(self.deadline),
        }
    }

    /// The place of a channel in [`Endpoint::channels`], if this rank is at the end that plays `role`.
    fn link(&self, channel: Channel, role: Role) -> Result<usize, CommError> {
        let rank = self.rank;
        let link = self.channels.binary_search(&channel).map_err(|_| CommError::NoChannel { rank, channel })?;
        let end = match role {
            Role::Send => channel.source,
            Role::Receive => channel.destination,
        };
        if end == rank { Ok(link) } else { Err(CommError::WrongEnd { rank, channel, role }) }
    }
}
