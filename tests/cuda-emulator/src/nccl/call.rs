//! An operation as it was called: of which communicator, on which stream.

use std::sync::Arc;

use super::comm::Comm;
use super::operation::Operation;

/// An operation as it was called.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) comm: Arc<Comm>,
    pub(crate) operation: Operation,
    /// The stream's handle.
    pub(crate) stream: usize,
}
