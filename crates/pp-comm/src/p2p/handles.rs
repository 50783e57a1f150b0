//! What a call that has returned early leaves to be waited for.

use std::cell::RefCell;
use std::rc::Rc;

use pp_schedule::{Channel, Direction, Microbatch};

use super::contents::{Contents, Item, Part};
use super::error::P2pError;
use super::exchange::{Exchange, Receiving, Sending};
use super::shapes;
use crate::endpoint::Endpoint;
use crate::error::CommError;
use crate::message::{Envelope, Label};

/// The label of one of a message's tensors. They are numbered from the last, so that the first to arrive says how many
/// there are.
pub(super) const fn label(envelope: Envelope, index: usize, n_parts: usize) -> Label {
    Label::Tensor { envelope, part: (n_parts - 1 - index) as u16 }
}

/// A send under way: the items belong to the endpoint until it was waited for. Dropped without that, they are still
/// sent.
#[derive(Debug)]
#[must_use = "a send is complete only once it was waited for"]
pub struct SendHandle {
    pub(super) envelope: Envelope,
    /// Its frames, in turn.
    pub(super) frames: Vec<Sending>,
}

impl SendHandle {
    /// The microbatch it belongs to.
    pub const fn microbatch(&self) -> Microbatch {
        self.envelope.message.microbatch
    }
}

/// A receive under way. Dropped without being waited for, its message still takes its turn on the channel, and is then
/// lost.
#[derive(Debug)]
#[must_use = "a receive gives its message only when it is waited for"]
pub struct RecvHandle(pub(super) Rc<RefCell<Incoming>>);

/// A message that is to come.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) direction: Direction,
    channel: Channel,
    envelope: Envelope,
    state: State,
}

#[derive(Debug)]
enum State {
    /// The shapes of a message before it are not there yet, so that nothing of this one can be asked for.
    Queued,
    /// Its shapes are on their way; its tensors cannot be received before.
    Unsized(Receiving),
    Sized(Vec<(Part, Receiving)>),
    Failed(P2pError),
}

impl Incoming {
    /// Posts the receive of a message of agreed shapes; where these vary, the message takes its place in a queue.
    pub(super) fn post(
        exchange: &mut Exchange<'_>,
        (direction, channel): (Direction, Channel),
        envelope: Envelope,
        contents: &Contents,
    ) -> Result<Self, P2pError> {
        let state = if contents.varies() {
            State::Queued
        } else {
            State::Sized(post_parts(exchange, channel, envelope, contents.parts().to_vec())?)
        };
        Ok(Self { direction, channel, envelope, state })
    }

    /// Whether its tensors cannot be received yet.
    pub(super) const fn is_unsized(&self) -> bool {
        matches!(self.state, State::Queued | State::Unsized(_))
    }

    /// Asks for its shapes, if that was not done: it is its turn.
    pub(super) fn begin(&mut self, endpoint: &mut Endpoint, contents: &Contents) -> Result<(), P2pError> {
        if matches!(self.state, State::Queued) {
            let boundary = shapes::boundary(contents.parts().len())?;
            let label = Label::Shapes(self.envelope);
            self.state = State::Unsized(Exchange::begin(endpoint).receive(self.channel, label, boundary)?);
        }
        Ok(())
    }

    /// Whether to wait for its shapes would end at once.
    pub(super) fn would_end(&self, endpoint: &mut Endpoint) -> bool {
        match &self.state {
            State::Queued => false,
            State::Unsized(shapes) => shapes.would_end(endpoint),
            State::Sized(_) | State::Failed(_) => true,
        }
    }

    /// Once begun, sees to it that its tensors can arrive: where shapes vary, waits for them. A failure stays, for whoever
    /// waits next.
    pub(super) fn size(
        &mut self,
        endpoint: &mut Endpoint,
        contents: &Contents,
        meanwhile: impl FnMut(&mut Endpoint) -> Result<bool, P2pError>,
    ) -> Result<(), P2pError> {
        match std::mem::replace(&mut self.state, State::Sized(Vec::new())) {
            State::Unsized(shapes) => match self.sized(shapes, endpoint, contents, meanwhile) {
                Ok(parts) => self.state = State::Sized(parts),
                Err(error) => self.state = State::Failed(error),
            },
            state => self.state = state,
        }
        match &self.state {
            State::Failed(error) => Err(error.clone()),
            _ => Ok(()),
        }
    }

    fn sized(
        &self,
        shapes: Receiving,
        endpoint: &mut Endpoint,
        contents: &Contents,
        meanwhile: impl FnMut(&mut Endpoint) -> Result<bool, P2pError>,
    ) -> Result<Vec<(Part, Receiving)>, P2pError> {
        let envelope = self.envelope;
        let arrived = shapes.wait_meanwhile(endpoint, meanwhile).map_err(|error| match error {
            P2pError::Comm(CommError::WrongBoundary { label: Label::Shapes(_), ref expected, ref found, .. }) => {
                match (shapes::n_items(expected), shapes::n_items(found)) {
                    (Some(agreed), Some(given)) => P2pError::Arity { envelope, agreed, given },
                    _ => error,
                }
            }
            error => error,
        })?;
        let parts = shapes::decode(&arrived, contents, envelope)?;
        post_parts(&mut Exchange::begin(endpoint), self.channel, envelope, parts)
    }

    /// Waits for its items, once it is sized.
    pub(super) fn take(
        &mut self,
        endpoint: &mut Endpoint,
        mut meanwhile: impl FnMut(&mut Endpoint) -> Result<bool, P2pError>,
    ) -> Result<Vec<Item>, P2pError> {
        let parts = match std::mem::replace(&mut self.state, State::Sized(Vec::new())) {
            State::Sized(parts) => parts,
            State::Failed(error) => return Err(error),
            State::Queued | State::Unsized(_) => return Ok(Vec::new()),
        };
        let (envelope, agreed) = (self.envelope, parts.len());
        let arrive = |(part, receive): (Part, Receiving)| {
            let arrived = receive.wait_meanwhile(endpoint, &mut meanwhile);
            Ok(part.unpack(arrived.map_err(|error| in_arity(error, envelope, agreed))?)?)
        };
        parts.into_iter().map(arrive).collect()
    }
}

fn post_parts(
    exchange: &mut Exchange<'_>,
    channel: Channel,
    envelope: Envelope,
    parts: Vec<Part>,
) -> Result<Vec<(Part, Receiving)>, P2pError> {
    let n_parts = parts.len();
    let post = |(index, part): (usize, Part)| {
        // The first may have turned out to be another already when the next is posted.
        let receive = exchange.receive(channel, label(envelope, index, n_parts), part.boundary()?);
        let receive = receive.map_err(|error| in_arity(error.into(), envelope, n_parts))?;
        Ok((part, receive))
    };
    parts.into_iter().enumerate().map(post).collect()
}

/// What it means when the first tensor of the right message has another number than expected.
fn in_arity(error: P2pError, envelope: Envelope, agreed: usize) -> P2pError {
    match error {
        P2pError::Comm(CommError::WrongMessage {
            expected: Label::Tensor { part: first, .. },
            found: Label::Tensor { envelope: of, part },
            ..
        }) if of == envelope && usize::from(first) + 1 == agreed => {
            P2pError::Arity { envelope, agreed, given: usize::from(part) + 1 }
        }
        error => error,
    }
}
