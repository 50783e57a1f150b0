//! A point in a stream's work.

use std::time::Duration;

use crate::error::NcclError;

/// A point in a stream's work that other streams, or the host, can wait for.
#[derive(Clone, Debug)]
pub struct Event {
    // an Arc of the raw event
}

impl Event {
    /// Whether the work before it is done. Does not wait.
    ///
    /// # Errors
    /// What the driver says of the work.
    pub fn is_complete(&self) -> Result<bool, NcclError> {
        todo!()
    }

    /// Waits here until the work before it is done, for at most that long.
    ///
    /// # Errors
    /// [`NcclError::Deadline`], or what the driver says of the work.
    pub fn wait(&self, limit: Duration) -> Result<(), NcclError> {
        todo!("{limit:?}")
    }
}
