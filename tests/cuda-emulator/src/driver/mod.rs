//! The driver half.

use std::ffi::c_void;

mod code;

pub use code::{Code, Error};

use crate::job::{Access, Run};

/// A context, by its handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContextId(pub(crate) usize);

/// Puts work on a stream; null is the default stream of the current context. The memory it touches is checked now.
///
/// # Errors
/// An unknown stream, no current context, a context that failed, memory that is not there, a race.
pub fn enqueue(stream: *mut c_void, what: String, accesses: Vec<Access>, run: Run) -> Result<(), Error> {
    let _ = run;
    todo!("{stream:?} {what} {accesses:?}")
}

/// The context that is current on this thread. On a stream's worker: that of the stream.
pub fn current_context() -> Option<ContextId> {
    todo!()
}

/// The number of a context's device.
///
/// # Errors
/// It is gone.
pub fn device_of_context(context: ContextId) -> Result<usize, Error> {
    todo!("{context:?}")
}

/// The number of the device of a stream; null is the default stream of the current context.
///
/// # Errors
/// An unknown stream, no current context.
pub fn device_of_stream(stream: *mut c_void) -> Result<usize, Error> {
    todo!("{stream:?}")
}

/// Reports a violation, whose kind is the first line of `text`, and makes all later calls on the current context fail with
/// [`Code::LaunchFailed`]. Work of the context that waits is cancelled.
pub fn fail_context(text: &str) {
    todo!("{text}")
}
