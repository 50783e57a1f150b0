//! What stands for a transfer in flight, and what becomes of it when nobody waits for it.

use std::sync::{Arc, Mutex, PoisonError};

use crate::error::Operation;
use crate::message::{Boundary, Buffer};

/// A transfer by the place of its channel in the endpoint and its number there.
pub(super) type Place = (usize, u64);

/// The transfers of one endpoint that nobody will wait for. It is also what tells one endpoint from another. A lock,
/// though never contended in practice: a ticket may be dropped on another thread.
#[derive(Clone, Debug, Default)]
pub(super) struct Abandoned(Arc<Mutex<Vec<Place>>>);

impl Abandoned {
    /// A hold on one transfer of the endpoint.
    pub(super) fn claim(&self, place: Place) -> Claim {
        Claim { of: self.clone(), place, open: true }
    }

    /// What was abandoned since this was last asked.
    pub(super) fn take(&self) -> Vec<Place> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A hold on a transfer: dropped while it is open, by whatever way, the transfer is abandoned.
#[derive(Debug)]
pub(super) struct Claim {
    of: Abandoned,
    place: Place,
    open: bool,
}

impl Claim {
    pub(super) const fn place(&self) -> Place {
        self.place
    }

    /// Whether it is a transfer of that endpoint.
    pub(super) fn is_of(&self, endpoint: &Abandoned) -> bool {
        Arc::ptr_eq(&self.of.0, &endpoint.0)
    }

    /// The transfer's buffer was taken, or there never was one.
    pub(super) fn close(mut self) {
        self.open = false;
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.open {
            self.of.0.lock().unwrap_or_else(PoisonError::into_inner).push(self.place);
        }
    }
}

/// A send in flight. Dropped without being waited for, it goes on all the same, and its buffer is let go once its bytes
/// have left and the endpoint is used again.
#[derive(Debug)]
#[must_use = "a send is complete only once it was waited for"]
pub struct SendTicket {
    pub(super) operation: Operation,
    pub(super) n_bytes: u64,
    pub(super) claim: Claim,
    /// What did not leave on purpose: a rehearsal.
    pub(super) lost: Option<Buffer>,
}

/// A receive in flight. Dropped without being waited for, its message still takes its turn on the channel, and is then
/// let go.
#[derive(Debug)]
#[must_use = "a receive gives its message only when it is waited for"]
pub struct RecvTicket {
    pub(super) operation: Operation,
    pub(super) boundary: Boundary,
    pub(super) claim: Claim,
}
