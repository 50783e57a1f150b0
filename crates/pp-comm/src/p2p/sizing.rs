//! Receives whose shapes are still on their way.
//!
//! Where shapes vary, a message's tensors can be asked for only once its shapes are there, and those of the next message
//! on the channel only after that. So that this holds up nobody, whoever waits for anything on the ring looks after it
//! meanwhile: a program that works with agreed shapes works with varying ones.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use pp_schedule::Direction;

use super::error::P2pError;
use super::handles::Incoming;
use super::spec::RingSpec;
use crate::endpoint::Endpoint;

/// A receive, as shared with its handle.
pub(super) type Shared = Rc<RefCell<Incoming>>;

/// By direction, the receives that are not sized, in turn. The shapes of the first are asked for.
#[derive(Debug, Default)]
pub(super) struct Sizing {
    queues: [VecDeque<Shared>; 2],
}

impl Sizing {
    /// Takes in a receive; asks for its shapes if it is its turn.
    pub(super) fn push(&mut self, endpoint: &mut Endpoint, spec: &RingSpec, incoming: &Shared) -> Result<(), P2pError> {
        let direction = incoming.borrow().direction;
        self.queues[direction as usize].push_back(Rc::clone(incoming));
        self.begin(endpoint, spec, direction)
    }

    fn begin(&self, endpoint: &mut Endpoint, spec: &RingSpec, direction: Direction) -> Result<(), P2pError> {
        match self.queues[direction as usize].front() {
            Some(first) => first.borrow_mut().begin(endpoint, spec.contents(direction)),
            None => Ok(()),
        }
    }

    /// Sizes what has shapes by now, without waiting. Whether there is more to come.
    pub(super) fn advance(&mut self, endpoint: &mut Endpoint, spec: &RingSpec) -> Result<bool, P2pError> {
        for direction in [Direction::Forward, Direction::Backward] {
            self.advance_in(endpoint, spec, direction)?;
        }
        Ok(self.queues.iter().any(|queue| !queue.is_empty()))
    }

    fn advance_in(&mut self, endpoint: &mut Endpoint, spec: &RingSpec, direction: Direction) -> Result<bool, P2pError> {
        while let Some(first) = self.queues[direction as usize].front().cloned() {
            if !first.borrow().would_end(endpoint) {
                return Ok(true);
            }
            self.size_first(endpoint, spec, (direction, &first))?;
        }
        Ok(false)
    }

    /// Waits for the shapes of the first receive of a direction, and asks for those of the next. Those of the other
    /// direction are looked after meanwhile.
    fn size_first(
        &mut self,
        endpoint: &mut Endpoint,
        spec: &RingSpec,
        (direction, first): (Direction, &Shared),
    ) -> Result<(), P2pError> {
        self.queues[direction as usize].pop_front();
        let (mut first, contents) = (first.borrow_mut(), spec.contents(direction));
        first.begin(endpoint, contents)?;
        let other = match direction {
            Direction::Forward => Direction::Backward,
            Direction::Backward => Direction::Forward,
        };
        first.size(endpoint, contents, |endpoint| self.advance_in(endpoint, spec, other))?;
        self.begin(endpoint, spec, direction)
    }

    /// Waits until a receive is sized, and so all that were started before it.
    pub(super) fn size(&mut self, endpoint: &mut Endpoint, spec: &RingSpec, incoming: &Shared) -> Result<(), P2pError> {
        let direction = incoming.borrow().direction;
        while incoming.borrow().is_unsized()
            && let Some(first) = self.queues[direction as usize].front().cloned()
        {
            self.size_first(endpoint, spec, (direction, &first))?;
        }
        Ok(())
    }
}
