//! What was launched and may not be complete.

use std::sync::Arc;
use std::time::Duration;

use crate::error::NcclError;
use crate::event::Event;
use crate::memory::Shared;
use crate::parked::{self, Until};
use crate::poll::Wait;
use crate::state::{End, State};
use crate::stream::Stream;

/// What is asked of a communicator while its operations run.
const CALL: &str = "ncclCommGetAsyncError";

/// Operations that were launched, with the memory they use. Dropped before they are complete, that memory is kept until they
/// are, or until their communicators are gone and the stream has come past them.
///
/// Forgotten (`mem::forget`), it keeps the memory for ever; that is safe.
#[derive(Debug)]
#[must_use = "operations are complete only once they were waited for"]
pub struct InFlight {
    event: Event,
    memory: Vec<Shared>,
    states: Vec<Arc<State>>,
    is_complete: bool,
}

impl InFlight {
    pub(crate) fn new(event: Event, memory: Vec<Shared>, states: Vec<Arc<State>>) -> Self {
        Self { event, memory, states, is_complete: false }
    }

    /// The point in the stream after them.
    pub fn event(&self) -> &Event {
        &self.event
    }

    /// Whether they are complete. Does not wait.
    ///
    /// # Errors
    /// [`NcclError::Aborted`] also where they may have been complete before: a stream comes past what was aborted as it does
    /// past what is complete. Otherwise what the driver or NCCL says of them.
    pub fn is_complete(&self) -> Result<bool, NcclError> {
        if self.is_complete {
            return Ok(true);
        }
        // First the event: what is complete while no abort has begun was not aborted.
        let is_past = self.event.is_complete()?;
        for state in &self.states {
            match state.end() {
                Some(End::Aborted) => return Err(NcclError::Aborted { call: CALL }),
                Some(End::Finalized) => {}
                // A communicator that failed since is no reason to doubt what is complete.
                None if is_past => {}
                None => {
                    state.is_ready(CALL)?;
                }
            }
        }
        Ok(is_past)
    }

    /// Waits here until they are complete, for at most that long; then lets go of the memory. On an error the memory is kept, as
    /// when this is dropped.
    ///
    /// # Errors
    /// [`NcclError::Deadline`] (wait again, or abort), [`NcclError::Aborted`], or what the driver or NCCL says of them.
    pub fn wait(&mut self, limit: Duration) -> Result<(), NcclError> {
        Wait::new("an operation", limit).until(|| Ok(self.is_complete()?.then_some(())))?;
        self.is_complete = true;
        self.memory.clear();
        parked::sweep();
        Ok(())
    }

    /// Has `stream` wait for them, and lets go of the memory: at once of what is freed in the order of `stream` (that is, of what
    /// was allocated on it), of other memory once they are complete. Does not wait here.
    ///
    /// # Errors
    /// What the driver says.
    pub fn then_on(mut self, stream: &Stream) -> Result<(), NcclError> {
        stream.wait(&self.event)?;
        // What is freed on that stream is used anew only after this.
        self.memory.retain(|memory| !memory.freed_on().is_some_and(|freed_on| freed_on.is(stream)));
        Ok(())
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let memory = std::mem::take(&mut self.memory);
        // Complete or aborted is the same here: the stream is past them.
        if !memory.is_empty() && !self.event.is_complete().unwrap_or(false) {
            parked::keep(Until::Complete(self.event.clone()), memory);
        }
        parked::sweep();
    }
}
