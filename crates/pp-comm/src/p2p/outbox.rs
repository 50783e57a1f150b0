//! Sends that nobody waits for yet, and when their buffers may go.

use pp_schedule::Microbatch;

use super::error::P2pError;
use super::handles::SendHandle;
use super::ring::RingComm;
use crate::endpoint::Endpoint;

/// Sends under way, by microbatch. All those of one microbatch, its activation's and its gradient's, are let go
/// together: one turn after its backward posted the last of them, when there has been time for them to complete
/// (HyperParallel's rule).
///
/// [`Outbox::keep`] takes what a call started, [`Outbox::backward_posted`] ends a turn, [`Outbox::finish`] the step.
/// Dropped before that, what it holds is still sent.
#[derive(Debug, Default)]
#[must_use = "it holds sends that have to be waited for"]
pub struct Outbox {
    sends: Vec<SendHandle>,
    /// The microbatch whose backward posted last.
    last: Option<Microbatch>,
}

impl Outbox {
    /// Takes a send.
    pub fn keep(&mut self, send: SendHandle) {
        self.sends.push(send);
    }

    /// How many sends it holds.
    pub const fn n_held(&self) -> usize {
        self.sends.len()
    }

    /// Ends a turn: the backward of `microbatch` has posted its sends, and those of the turn before are waited for.
    /// Gives how many sends are complete by this.
    ///
    /// # Errors
    /// [`P2pError`].
    pub fn backward_posted(
        &mut self,
        ring: &mut RingComm,
        endpoint: &mut Endpoint,
        microbatch: Microbatch,
    ) -> Result<usize, P2pError> {
        match self.last.replace(microbatch) {
            Some(before) => self.release(ring, endpoint, |send| send.microbatch() == before),
            None => Ok(0),
        }
    }

    /// Waits for everything that it still holds.
    ///
    /// # Errors
    /// [`P2pError`].
    pub fn finish(mut self, ring: &mut RingComm, endpoint: &mut Endpoint) -> Result<usize, P2pError> {
        self.release(ring, endpoint, |_| true)
    }

    fn release(
        &mut self,
        ring: &mut RingComm,
        endpoint: &mut Endpoint,
        may_go: impl Fn(&SendHandle) -> bool,
    ) -> Result<usize, P2pError> {
        let (done, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut self.sends).into_iter().partition(may_go);
        self.sends = kept;
        let n_done = done.len();
        done.into_iter().try_for_each(|send| ring.wait_send(endpoint, send))?;
        Ok(n_done)
    }
}
