//! A rank's ends of the program's channels.
//!
//! Sends and receives are posted without waiting and waited for later; what is in flight belongs to the endpoint until
//! then. On each channel they match in the order in which they are posted, and every message is checked against what
//! the receive expects.

#[cfg(feature = "nccl")]
mod device;
mod faults;
mod link;
mod links;
mod meddler;
mod memory;
#[cfg(feature = "nccl")]
mod nccl;
mod pipe;
mod spin;
#[cfg(all(test, not(loom)))]
mod tests;
mod ticket;
mod transport;

use std::marker::PhantomData;
use std::time::Duration;

use pp_schedule::{Channel, Rank, Role};

use crate::deadline::Deadline;
use crate::error::{CommError, Operation};
use crate::flight::{Recorder, State, Subject};
use crate::message::{Boundary, Buffer, Label};

pub use faults::{Fault, FaultError};
pub(crate) use links::SocketTransport;
use meddler::{Meddled, Meddler};
pub(crate) use memory::MemoryTransport;
#[cfg(feature = "nccl")]
pub use nccl::{Communicators, HandOver, NcclSpec, Waits};
#[cfg(feature = "nccl")]
pub(crate) use nccl::{GroupLaunch, of_nccl};
pub(crate) use pipe::Pipe;
pub use pipe::{RoughLinks, Transports};
use spin::Spin;
use ticket::{Abandoned, Claim};
pub use ticket::{RecvTicket, SendTicket};
use transport::Transport;

/// Pause between two looks at several transfers at once.
const PAUSE: Duration = Duration::from_micros(200);

/// A rank's ends of its channels: in memory, in memory shared with other processes, over sockets, or between GPUs.
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
    abandoned: Abandoned,
    one_thread: PhantomData<*const ()>,
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
        let (rank, abandoned) = (recorder.rank(), Abandoned::default());
        Self { rank, channels, deadline, recorder, meddler, transport, abandoned, one_thread: PhantomData }
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

    /// What a channel of this rank goes over, for reports: `memory`, `shared memory`, `tcp` or `nccl`.
    pub fn transport_of(&self, channel: Channel) -> Option<&'static str> {
        let link = self.channels.iter().position(|&known| known == channel)?;
        Some(self.transport.name(link))
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
        self.let_go();
        let (claim, lost) = match self.meddler.meddle(buffer)? {
            Meddled::Sent(buffer) => (self.hand_over(link, label, buffer)?, None),
            Meddled::Twice(buffer) => {
                let first = self.hand_over(link, label, buffer.clone())?;
                // Nobody waits for the second.
                drop(self.hand_over(link, label, buffer)?);
                (first, None)
            }
            Meddled::Lost(buffer) => (self.abandoned.claim((link, u64::MAX)), Some(buffer)),
        };
        let operation = Operation { role: Role::Send, channel, label };
        self.recorder.note(Subject::Transfer(operation), State::Posted, n_bytes);
        Ok(SendTicket { operation, n_bytes, claim, lost })
    }

    fn hand_over(&mut self, link: usize, label: Label, buffer: Buffer) -> Result<Claim, CommError> {
        let number = self.transport.post_send((link, self.channels[link]), label, buffer)?;
        Ok(self.abandoned.claim((link, number)))
    }

    /// Lets go what nobody will wait for any more.
    fn let_go(&mut self) {
        for (link, number) in self.abandoned.take() {
            self.transport.abandon(link, number);
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
        self.let_go();
        let number = self.transport.post_recv(link, label, boundary.clone(), memory)?;
        let operation = Operation { role: Role::Receive, channel, label };
        self.recorder.note(Subject::Transfer(operation), State::Posted, boundary.n_bytes() as u64);
        Ok(RecvTicket { operation, boundary, claim: self.abandoned.claim((link, number)) })
    }

    /// Waits until a send is complete, which is when all of it has left and its receive was posted, whatever could be buffered
    /// on the way: what works does so at every size. Gives the buffer back, which belongs to the endpoint until then.
    ///
    /// # Errors
    /// [`CommError::Deadline`], [`CommError::PeerLost`], [`CommError::ForeignTicket`], or what else the channel failed
    /// with. After an error the send may still complete, but its buffer does not come back.
    pub fn wait_send(&mut self, ticket: SendTicket) -> Result<Buffer, CommError> {
        self.wait_send_meanwhile(ticket, |_| Ok(false))
    }

    /// The same, and has something done meanwhile, again and again until that says that there is nothing more to do or
    /// fails.
    pub(crate) fn wait_send_meanwhile<E: From<CommError>>(
        &mut self,
        ticket: SendTicket,
        meanwhile: impl FnMut(&mut Self) -> Result<bool, E>,
    ) -> Result<Buffer, E> {
        let SendTicket { operation, n_bytes, claim, lost } = ticket;
        match lost {
            Some(buffer) => {
                claim.close();
                self.recorded(operation, n_bytes, |_| Ok(buffer))
            }
            None => self.recorded(operation, n_bytes, |endpoint| endpoint.wait(operation, claim, meanwhile)),
        }
    }

    /// Waits for a message.
    ///
    /// Messages meet their receives in turn. When one is not what its receive expects, nothing that comes after it on the
    /// channel can be told either: from then on every receive of the channel that is not complete ends in that error,
    /// whichever is waited for first, and no other is accepted.
    ///
    /// # Errors
    /// [`CommError::Deadline`], [`CommError::PeerLost`], [`CommError::WrongMessage`] and [`CommError::WrongBoundary`]
    /// when something else arrived than was expected, [`CommError::ForeignTicket`], or what else the channel failed
    /// with.
    pub fn wait_recv(&mut self, ticket: RecvTicket) -> Result<Buffer, CommError> {
        self.wait_recv_meanwhile(ticket, |_| Ok(false))
    }

    /// As [`Endpoint::wait_send_meanwhile`].
    pub(crate) fn wait_recv_meanwhile<E: From<CommError>>(
        &mut self,
        ticket: RecvTicket,
        meanwhile: impl FnMut(&mut Self) -> Result<bool, E>,
    ) -> Result<Buffer, E> {
        let RecvTicket { operation, boundary, claim } = ticket;
        let n_bytes = boundary.n_bytes() as u64;
        self.recorded(operation, n_bytes, |endpoint| endpoint.wait(operation, claim, meanwhile))
    }

    /// Whether a wait for this receive would end at once, in whatever way. Does not wait.
    pub(crate) fn would_end(&mut self, ticket: &RecvTicket) -> bool {
        !ticket.claim.is_of(&self.abandoned) || self.has_ended(ticket.operation.role, ticket.claim.place())
    }

    fn has_ended(&mut self, role: Role, (link, number): ticket::Place) -> bool {
        self.transport.has_ended(role, link, number)
    }

    fn wait<E: From<CommError>>(
        &mut self,
        operation: Operation,
        claim: Claim,
        mut meanwhile: impl FnMut(&mut Self) -> Result<bool, E>,
    ) -> Result<Buffer, E> {
        if !claim.is_of(&self.abandoned) {
            return Err(CommError::ForeignTicket { rank: self.rank, operation }.into());
        }
        self.let_go();
        let (limit, (link, number)) = (self.deadline, claim.place());
        let (deadline, mut spin) = (Deadline::after(limit), Spin::default());
        while meanwhile(self)? && !self.has_ended(operation.role, (link, number)) {
            let Some(left) = deadline.remaining() else { break };
            if !spin.turn() {
                std::thread::sleep(PAUSE.min(left));
            }
        }
        let left = deadline.remaining().unwrap_or_default();
        let done = self.transport.wait(operation, (link, number), left)?;
        let buffer = done.ok_or_else(|| self.transport.fail(CommError::Deadline { operation, limit }))?;
        claim.close();
        Ok(buffer)
    }

    /// Has the recorder keep how a wait begins and ends.
    fn recorded<R, E>(
        &mut self,
        operation: Operation,
        n_bytes: u64,
        wait: impl FnOnce(&mut Self) -> Result<R, E>,
    ) -> Result<R, E> {
        let subject = Subject::Transfer(operation);
        self.recorder.note(subject, State::Begun, n_bytes);
        let done = wait(self);
        self.recorder.note(subject, if done.is_ok() { State::Done } else { State::Failed }, n_bytes);
        done
    }

    /// What is posted from here on goes together, where that makes a difference: as one launch of one communicator.
    pub(crate) fn begin_together(&mut self) {
        self.transport.begin_together();
    }

    /// All that goes together was posted. An error ends the endpoint; whatever is asked of it next says so too.
    pub(crate) fn end_together(&mut self) -> Result<(), CommError> {
        self.transport.end_together()
    }

    /// Waits until all is complete that a device's stream, and not this rank, was made to wait for. [`execute`](crate::execute)
    /// does this at the end of a step. Where the rank itself waits, there is nothing to settle.
    ///
    /// # Errors
    /// What a wait for one of those transfers would have given, the first cause of all.
    pub fn settle(&mut self) -> Result<(), CommError> {
        self.transport.settle(&self.channels, self.deadline)
    }

    /// Leaves in good order: what was sent, waited for or not, still arrives where its receive is posted. Between
    /// processes this waits until it has left, for at most the deadline. Whoever still waits for this rank gets
    /// [`CommError::PeerLost`].
    pub fn close(self) {
        self.transport.close(self.deadline);
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
