//! What was launched and may not be complete.

use std::time::Duration;

use crate::error::NcclError;
use crate::event::Event;
use crate::stream::Stream;

/// Operations that were launched, with the memory they use. Dropped before they are complete, their communicators keep that
/// memory until they are, or until they are gone.
#[derive(Debug)]
#[must_use = "operations are complete only once they were waited for"]
pub struct InFlight {}

impl InFlight {
    /// The point in the stream after them.
    pub fn event(&self) -> &Event {
        todo!()
    }

    /// Whether they are complete. Does not wait.
    ///
    /// # Errors
    /// What the driver or NCCL says of them.
    pub fn is_complete(&self) -> Result<bool, NcclError> {
        todo!()
    }

    /// Waits here until they are complete, for at most that long; then lets go of the memory. On an error the communicators
    /// keep it, as when this is dropped.
    ///
    /// # Errors
    /// [`NcclError::Deadline`] (wait again, or abort), [`NcclError::Aborted`], or what the driver or NCCL says of them.
    pub fn wait(&mut self, limit: Duration) -> Result<(), NcclError> {
        todo!("{limit:?}")
    }

    /// Has `stream` wait for them, and lets go of the memory at once: right where that memory is used and freed in the order
    /// of `stream` only. Does not wait here.
    ///
    /// # Errors
    /// What the driver says.
    pub fn then_on(self, stream: &Stream) -> Result<(), NcclError> {
        todo!("{stream:?}")
    }
}
