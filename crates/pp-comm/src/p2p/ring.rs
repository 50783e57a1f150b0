//! Megatron's point-to-point methods, over the ring of a pipeline group.
//!
//! What a call moves is said by tags: a stage of this rank, a microbatch and the step. Whether the stage is the first
//! or the last of the pipeline, and so has nothing to receive or to send, follows from the tag: with several chunks per
//! rank the first rank is at the pipeline's start with chunk 0 only. Every message says on arrival which one it is, by
//! step, direction, consuming stage and microbatch, and goes over a channel of its own direction, also where next and
//! previous rank are the same.

use std::cell::RefCell;
use std::rc::Rc;

use pp_schedule::Direction;
use pp_schedule::lower::megatron::{OpKind, Overlap};

use super::contents::Item;
use super::error::P2pError;
use super::exchange::{Exchange, Sending};
use super::handles::{Incoming, RecvHandle, SendHandle, label};
use super::shapes;
use super::sizing::Sizing;
use super::spec::{Outgoing, RingSpec, Tag};
use crate::endpoint::Endpoint;
use crate::message::{Envelope, Label};

/// A call that has returned early: what is still under way. Where nothing is to be sent or received, there is no
/// handle.
#[derive(Debug, Default)]
#[must_use = "what was started has to be waited for"]
pub struct Started {
    /// The send.
    pub send: Option<SendHandle>,
    /// The receive.
    pub receive: Option<RecvHandle>,
}

/// The four transfers that a call may make.
#[derive(Debug, Default)]
struct Call {
    send_next: Option<Outgoing>,
    receive_previous: Option<Tag>,
    send_previous: Option<Outgoing>,
    receive_next: Option<Tag>,
}

/// Those of them that are under way, by direction: activations first.
#[derive(Debug, Default)]
struct Handles {
    sends: [Option<SendHandle>; 2],
    receives: [Option<RecvHandle>; 2],
}

/// One rank's place on the ring of a pipeline group.
///
/// Calls meet those of the neighbours in the order in which they are made, per direction. Where shapes vary, they are
/// sent ahead on the same channels; a message's tensors can only be received once its shapes are there. Every call and
/// every wait of the communicator looks after that for all receives started before, of both directions, so that calls
/// which complete with agreed shapes do so with varying ones. Between calls nobody does: a rank that waits for its peer
/// by other means first waits for what it started here.
///
/// After an error other than one about its arguments, the channels are out of step and the communicator is of no more
/// use.
#[derive(Debug)]
pub struct RingComm {
    spec: RingSpec,
    sizing: Sizing,
}

impl RingComm {
    /// A communicator over the [`ring channels`](crate::Group::ring_channels) of its group.
    ///
    /// # Errors
    /// [`P2pError::OverlapNeedsEvenOdd`], [`P2pError::Items`], and [`P2pError::NoRing`] where stages go another way, or
    /// from one stage of a lone rank to the next.
    pub fn new(spec: RingSpec) -> Result<Self, P2pError> {
        spec.validate()?;
        Ok(Self { spec, sizing: Sizing::default() })
    }

    /// `recv_forward`: the activation that a forward takes; none for the first stage.
    ///
    /// # Errors
    /// [`P2pError`], as all of these methods.
    pub fn recv_forward(&mut self, endpoint: &mut Endpoint, tag: Tag) -> Result<Option<Vec<Item>>, P2pError> {
        let [activation, _] = self.call(endpoint, Call { receive_previous: Some(tag), ..Call::default() })?;
        Ok(activation)
    }

    /// `recv_backward`: the gradient that a backward takes; none for the last stage.
    ///
    /// # Errors
    /// [`P2pError`].
    pub fn recv_backward(&mut self, endpoint: &mut Endpoint, tag: Tag) -> Result<Option<Vec<Item>>, P2pError> {
        let [_, gradient] = self.call(endpoint, Call { receive_next: Some(tag), ..Call::default() })?;
        Ok(gradient)
    }

    /// `send_forward`: what a forward made, to the next rank; nothing is done for the last stage.
    ///
    /// # Errors
    /// [`P2pError`].
    pub fn send_forward(&mut self, endpoint: &mut Endpoint, output: Outgoing) -> Result<(), P2pError> {
        self.call(endpoint, Call { send_next: Some(output), ..Call::default() }).map(drop)
    }

    /// `send_backward`: what a backward made, to the previous rank; nothing is done for the first stage.
    ///
    /// # Errors
    /// [`P2pError`].
    pub fn send_backward(&mut self, endpoint: &mut Endpoint, gradient: Outgoing) -> Result<(), P2pError> {
        self.call(endpoint, Call { send_previous: Some(gradient), ..Call::default() }).map(drop)
    }

    /// `send_forward_recv_backward`: sends what a forward made; gives the gradient that the backward `tag` takes.
    ///
    /// # Errors
    /// [`P2pError`].
    pub fn send_forward_recv_backward(
        &mut self,
        endpoint: &mut Endpoint,
        output: Outgoing,
        tag: Tag,
    ) -> Result<Option<Vec<Item>>, P2pError> {
        let call = Call { send_next: Some(output), receive_next: Some(tag), ..Call::default() };
        let [_, gradient] = self.call(endpoint, call)?;
        Ok(gradient)
    }

    /// `send_backward_recv_forward`: sends what a backward made; gives the activation that the forward `tag` takes.
    ///
    /// # Errors
    /// [`P2pError`].
    pub fn send_backward_recv_forward(
        &mut self,
        endpoint: &mut Endpoint,
        gradient: Outgoing,
        tag: Tag,
    ) -> Result<Option<Vec<Item>>, P2pError> {
        let call = Call { send_previous: Some(gradient), receive_previous: Some(tag), ..Call::default() };
        let [activation, _] = self.call(endpoint, call)?;
        Ok(activation)
    }

    /// `send_forward_recv_forward`: sends what a forward made, and gives the activation that another one takes; either
    /// may be left out.
    ///
    /// # Errors
    /// [`P2pError`].
    pub fn send_forward_recv_forward(
        &mut self,
        endpoint: &mut Endpoint,
        output: Option<Outgoing>,
        tag: Option<Tag>,
    ) -> Result<Option<Vec<Item>>, P2pError> {
        let call = Call { send_next: output, receive_previous: tag, ..Call::default() };
        let [activation, _] = self.call(endpoint, call)?;
        Ok(activation)
    }

    /// `send_backward_recv_backward`: sends what a backward made, and gives the gradient that another one takes; either
    /// may be left out.
    ///
    /// # Errors
    /// [`P2pError`].
    pub fn send_backward_recv_backward(
        &mut self,
        endpoint: &mut Endpoint,
        gradient: Option<Outgoing>,
        tag: Option<Tag>,
    ) -> Result<Option<Vec<Item>>, P2pError> {
        let call = Call { send_previous: gradient, receive_next: tag, ..Call::default() };
        let [_, gradient] = self.call(endpoint, call)?;
        Ok(gradient)
    }

    /// `send_forward_backward_recv_forward_backward`: all four ways at once; any of them may be left out. Gives the
    /// activation and the gradient.
    ///
    /// # Errors
    /// [`P2pError`].
    pub fn send_forward_backward_recv_forward_backward(
        &mut self,
        endpoint: &mut Endpoint,
        (output, gradient): (Option<Outgoing>, Option<Outgoing>),
        (forward, backward): (Option<Tag>, Option<Tag>),
    ) -> Result<[Option<Vec<Item>>; 2], P2pError> {
        let call =
            Call { send_next: output, receive_previous: forward, send_previous: gradient, receive_next: backward };
        self.call(endpoint, call)
    }

    /// [`RingComm::send_forward_recv_forward`] that returns at once (Megatron: `overlap_p2p_comm=True`). With the
    /// receive alone before a forward and the send alone after it, this is the form of warmup and flush.
    ///
    /// # Errors
    /// [`P2pError::OverlapIsOff`], and as all of these methods.
    pub fn start_send_forward_recv_forward(
        &mut self,
        endpoint: &mut Endpoint,
        output: Option<Outgoing>,
        tag: Option<Tag>,
    ) -> Result<Started, P2pError> {
        self.start(endpoint, Call { send_next: output, receive_previous: tag, ..Call::default() }, Direction::Forward)
    }

    /// [`RingComm::send_backward_recv_backward`] that returns at once.
    ///
    /// # Errors
    /// As [`RingComm::start_send_forward_recv_forward`].
    pub fn start_send_backward_recv_backward(
        &mut self,
        endpoint: &mut Endpoint,
        gradient: Option<Outgoing>,
        tag: Option<Tag>,
    ) -> Result<Started, P2pError> {
        self.start(
            endpoint,
            Call { send_previous: gradient, receive_next: tag, ..Call::default() },
            Direction::Backward,
        )
    }

    /// Waits for a send that a call started.
    ///
    /// # Errors
    /// [`P2pError`].
    pub fn wait_send(&mut self, endpoint: &mut Endpoint, send: SendHandle) -> Result<(), P2pError> {
        let Self { spec, sizing } = self;
        // The peer may wait for its own send first, whose receive here is not posted before its shapes are known.
        let wait = |frame: Sending| frame.wait_meanwhile(endpoint, |endpoint| sizing.advance(endpoint, spec)).map(drop);
        send.frames.into_iter().try_for_each(wait)
    }

    /// Waits for a message whose receive a call started.
    ///
    /// # Errors
    /// [`P2pError`].
    pub fn wait_receive(&mut self, endpoint: &mut Endpoint, receive: RecvHandle) -> Result<Vec<Item>, P2pError> {
        let Self { spec, sizing } = self;
        sizing.size(endpoint, spec, &receive.0)?;
        receive.0.borrow_mut().take(endpoint, |endpoint| sizing.advance(endpoint, spec))
    }

    fn start(&mut self, endpoint: &mut Endpoint, call: Call, direction: Direction) -> Result<Started, P2pError> {
        if self.spec.overlap == Overlap::Off {
            return Err(P2pError::OverlapIsOff);
        }
        let mut handles = self.post(endpoint, call)?;
        let index = direction as usize;
        Ok(Started { send: handles.sends[index].take(), receive: handles.receives[index].take() })
    }

    /// A call that returns when its transfers are complete: what arrived, by direction.
    fn call(&mut self, endpoint: &mut Endpoint, call: Call) -> Result<[Option<Vec<Item>>; 2], P2pError> {
        let mut handles = self.post(endpoint, call)?;
        let mut arrived = [None, None];
        // Complete in the order in which they were issued.
        for kind in self.spec.issue_order() {
            let index = direction_of(kind) as usize;
            match kind {
                OpKind::SendNext | OpKind::SendPrevious => {
                    if let Some(send) = handles.sends[index].take() {
                        self.wait_send(endpoint, send)?;
                    }
                }
                OpKind::ReceivePrevious | OpKind::ReceiveNext => {
                    let receive = handles.receives[index].take();
                    arrived[index] = receive.map(|receive| self.wait_receive(endpoint, receive)).transpose()?;
                }
            }
        }
        Ok(arrived)
    }

    /// Posts all of a call, once everything about it is known to be right.
    fn post(&mut self, endpoint: &mut Endpoint, call: Call) -> Result<Handles, P2pError> {
        let mut sends = [
            self.spec.leaving(Direction::Forward, call.send_next)?,
            self.spec.leaving(Direction::Backward, call.send_previous)?,
        ];
        let mut receives = [
            self.spec.arriving(Direction::Forward, call.receive_previous)?,
            self.spec.arriving(Direction::Backward, call.receive_next)?,
        ];
        self.sizing.advance(endpoint, &self.spec)?;
        let mut handles = Handles::default();
        for kind in self.spec.issue_order() {
            let direction = direction_of(kind);
            let index = direction as usize;
            match kind {
                OpKind::SendNext | OpKind::SendPrevious => {
                    let send = sends[index].take();
                    handles.sends[index] = send.map(|send| self.post_send(endpoint, direction, send)).transpose()?;
                }
                OpKind::ReceivePrevious | OpKind::ReceiveNext => {
                    let receive = receives[index].take();
                    handles.receives[index] =
                        receive.map(|envelope| self.post_receive(endpoint, direction, envelope)).transpose()?;
                }
            }
        }
        Ok(handles)
    }

    fn post_send(
        &self,
        endpoint: &mut Endpoint,
        direction: Direction,
        (envelope, items): (Envelope, Vec<Item>),
    ) -> Result<SendHandle, P2pError> {
        let channel = self.spec.group.ring_channel(self.spec.group.place(), direction);
        let n_parts = items.len();
        let mut exchange = Exchange::begin(endpoint);
        let mut frames = Vec::with_capacity(n_parts + 1);
        if self.spec.contents(direction).varies() {
            frames.push(exchange.send(channel, Label::Shapes(envelope), shapes::encode(&items)?)?);
        }
        for (index, item) in items.into_iter().enumerate() {
            frames.push(exchange.send(channel, label(envelope, index, n_parts), item.into_buffer()?)?);
        }
        Ok(SendHandle { envelope, frames })
    }

    fn post_receive(
        &mut self,
        endpoint: &mut Endpoint,
        direction: Direction,
        envelope: Envelope,
    ) -> Result<RecvHandle, P2pError> {
        let contents = self.spec.contents(direction);
        let channel = self.spec.arrival_channel(direction);
        let incoming = Incoming::post(&mut Exchange::begin(endpoint), (direction, channel), envelope, contents)?;
        let incoming = Rc::new(RefCell::new(incoming));
        if contents.varies() {
            self.sizing.push(endpoint, &self.spec, &incoming)?;
        }
        Ok(RecvHandle(incoming))
    }
}

const fn direction_of(kind: OpKind) -> Direction {
    match kind {
        OpKind::SendNext | OpKind::ReceivePrevious => Direction::Forward,
        OpKind::SendPrevious | OpKind::ReceiveNext => Direction::Backward,
    }
}
