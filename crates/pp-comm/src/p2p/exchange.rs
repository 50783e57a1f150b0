//! Transfers that are posted together, in an order that matters, and waited for one by one.

use pp_schedule::{Channel, Role};

use crate::endpoint::{Endpoint, RecvTicket, SendTicket};
use crate::error::CommError;
use crate::message::{Boundary, Buffer, Label};

/// Transfers that are being posted. Each goes to its channel at once and in turn, so that those of one channel meet the
/// peer's in this order; whatever stands in one exchange is posted before anything of it is waited for. Over one communicator
/// for all channels, they are launched together when the exchange ends.
///
/// It holds nothing and allocates nothing. When a transfer cannot be posted, those before it stay posted.
///
/// ```
/// # use std::time::Duration;
/// # use pp_comm::{Boundary, Buffer, DType, Envelope, MemorySpec, memory_fabric, p2p::Exchange};
/// # use pp_schedule::{Carries, Channel, Direction, Message, Microbatch, Rank, Stage};
/// # let channel = |source, destination, direction| {
/// #     Channel { source: Rank(source), destination: Rank(destination), carries: Carries::Only(direction), queue: 0 }
/// # };
/// let (forth, back) = (channel(0, 1, Direction::Forward), channel(1, 0, Direction::Backward));
/// # let spec = MemorySpec { n_ranks: 2, channels: vec![forth, back], capacity: 0, deadline: Duration::from_secs(5) };
/// # let label = |direction, stage| {
/// #     Envelope { step: 0, message: Message { direction, stage: Stage(stage), microbatch: Microbatch(0) } }
/// # };
/// # std::thread::scope(|scope| {
/// #     for builder in memory_fabric(spec).expect("both ranks exist") {
/// #         scope.spawn(move || {
/// #             let mut member = builder.build();
/// #             let first = member.endpoint.rank() == Rank(0);
/// #             let (out, back) = if first { (forth, back) } else { (back, forth) };
/// #             let (sent, received) = (label(Direction::Forward, 1), label(Direction::Backward, 0));
/// #             let (sent, received) = if first { (sent, received) } else { (received, sent) };
/// // Both ranks send first: nothing waits before everything is posted.
/// let mut exchange = Exchange::begin(&mut member.endpoint);
/// let send = exchange.send(out, sent, Buffer::i64(&[1], vec![7])?)?;
/// let receive = exchange.receive(back, received, Boundary::new(DType::I64, &[1])?)?;
/// exchange.end()?;
/// send.wait(&mut member.endpoint)?;
/// assert_eq!(receive.wait(&mut member.endpoint)?.into_i64()?, [7]);
/// #             member.close();
/// #             Ok::<(), pp_comm::CommError>(())
/// #         });
/// #     }
/// # });
/// ```
#[derive(Debug)]
pub struct Exchange<'a> {
    endpoint: &'a mut Endpoint,
}

impl<'a> Exchange<'a> {
    /// Begins one.
    pub fn begin(endpoint: &'a mut Endpoint) -> Self {
        endpoint.begin_together();
        Self { endpoint }
    }

    /// Ends it: all that goes together was posted. Dropped without this, it ends too, and what is wrong then shows to whoever
    /// waits.
    ///
    /// # Errors
    /// What kept the transfers from being launched, where they are launched together.
    pub fn end(self) -> Result<(), CommError> {
        self.endpoint.end_together()
    }

    /// Posts a send.
    ///
    /// # Errors
    /// As [`Endpoint::post_send`].
    pub fn send(&mut self, channel: Channel, label: impl Into<Label>, buffer: Buffer) -> Result<Sending, CommError> {
        self.endpoint.post_send(channel, label, buffer).map(Sending)
    }

    /// Posts a receive of a message that both sides agreed to be `boundary`.
    ///
    /// # Errors
    /// As [`Endpoint::post_recv`].
    pub fn receive(
        &mut self,
        channel: Channel,
        label: impl Into<Label>,
        boundary: Boundary,
    ) -> Result<Receiving, CommError> {
        self.endpoint.post_recv(channel, label, boundary).map(Receiving)
    }
}

impl Drop for Exchange<'_> {
    fn drop(&mut self) {
        // The endpoint keeps what is wrong.
        let _ = self.endpoint.end_together();
    }
}

/// A send under way. Its buffer belongs to the endpoint until it was waited for. Dropped without that, the send goes on
/// all the same, and the endpoint lets the buffer go when its bytes have left; nobody learns whether it ever arrived.
#[derive(Debug)]
#[must_use = "a send is complete only once it was waited for"]
pub struct Sending(SendTicket);

impl Sending {
    /// Waits until it is complete; gives the buffer back.
    ///
    /// # Errors
    /// As [`Endpoint::wait_send`].
    pub fn wait(self, endpoint: &mut Endpoint) -> Result<Buffer, CommError> {
        endpoint.wait_send(self.0)
    }

    /// The same, and has something done meanwhile until there is nothing more to do.
    pub(super) fn wait_meanwhile<E: From<CommError>>(
        self,
        endpoint: &mut Endpoint,
        meanwhile: impl FnMut(&mut Endpoint) -> Result<bool, E>,
    ) -> Result<Buffer, E> {
        endpoint.wait_send_meanwhile(self.0, meanwhile)
    }
}

/// A receive under way. Dropped without being waited for, its message is still taken off the channel in its turn, so
/// that those after it meet their own receives; it then stays with the endpoint until that is closed.
#[derive(Debug)]
#[must_use = "a receive gives its message only when it is waited for"]
pub struct Receiving(RecvTicket);

impl Receiving {
    /// Waits for the message.
    ///
    /// # Errors
    /// As [`Endpoint::wait_recv`].
    pub fn wait(self, endpoint: &mut Endpoint) -> Result<Buffer, CommError> {
        endpoint.wait_recv(self.0)
    }

    /// Whether a wait would end at once.
    pub(crate) fn would_end(&self, endpoint: &mut Endpoint) -> bool {
        endpoint.would_end(&self.0)
    }

    /// As [`Sending::wait_meanwhile`].
    pub(super) fn wait_meanwhile<E: From<CommError>>(
        self,
        endpoint: &mut Endpoint,
        meanwhile: impl FnMut(&mut Endpoint) -> Result<bool, E>,
    ) -> Result<Buffer, E> {
        endpoint.wait_recv_meanwhile(self.0, meanwhile)
    }
}

/// Either of them, for whoever keeps transfers in one list.
#[derive(Debug)]
#[must_use = "a transfer is complete only once it was waited for"]
pub enum InFlight {
    /// A send.
    Send(Sending),
    /// A receive.
    Receive(Receiving),
}

impl InFlight {
    /// Which of them it is.
    pub const fn role(&self) -> Role {
        match self {
            Self::Send(_) => Role::Send,
            Self::Receive(_) => Role::Receive,
        }
    }

    /// Waits until it is complete; gives the message of a receive.
    ///
    /// # Errors
    /// As [`Sending::wait`] and [`Receiving::wait`].
    pub fn wait(self, endpoint: &mut Endpoint) -> Result<Option<Buffer>, CommError> {
        match self {
            Self::Send(send) => send.wait(endpoint).map(|_| None),
            Self::Receive(receive) => receive.wait(endpoint).map(Some),
        }
    }
}
