//! The driver half.
//!
//! Rooms, each using only those above it: `code`, `process`, `host` (what threads know), `written`, `bytes`, `context`,
//! `memory`, `mark`, `work` with `races` (what runs, and reports), `stream` (workers), `state` (all there is), `current`,
//! `queue` (the one way onto a stream), `wait`, `event`, `heap`, `copy`, `lifecycle`.

use std::ffi::c_void;
use std::sync::Arc;

mod bytes;
mod code;
mod context;
mod copy;
mod current;
mod event;
mod heap;
mod host;
mod lifecycle;
mod mark;
mod memory;
mod process;
mod queue;
mod races;
mod state;
mod stream;
mod wait;
mod work;
mod written;

#[cfg(test)]
mod tests;

pub use code::{Code, Error};
pub use copy::{copy, copy_async, copy_in, copy_in_async, copy_out, fill, is_pinned};
pub use event::{create_event, destroy_event, elapsed_ms, query_event, record_event, synchronize_event, wait_event};
pub use heap::{allocate, allocate_async, allocate_host, free, free_async, free_host};
pub use host::HOST_VAR;
pub use lifecycle::{
    destroy, device, init, make, memory_info, n_devices, release_primary, reset_primary, retain_primary,
};
pub use process::DEVICES_VAR;
pub use wait::{create_stream, destroy_stream, launch_host, query_stream, synchronize_context, synchronize_stream};

use crate::job::{Access, Run};
use crate::report;
use context::Context;
use queue::Order;
use state::state;

/// A context, by its handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContextId(pub(crate) usize);

/// Puts work on a stream; null is the default stream of the current context. The memory it touches is checked now. The work
/// may learn from peers.
///
/// # Errors
/// An unknown stream, no current context, a context that failed, memory that is not there, a race.
pub fn enqueue(stream: *mut c_void, what: String, accesses: Vec<Access>, run: Run) -> Result<(), Error> {
    queue::put(stream.addr(), Order { learns: true, ..Order::new(&what, accesses, run) }).map(drop)
}

/// The context that is current on this thread. On a stream's worker: that of the stream.
pub fn current_context() -> Option<ContextId> {
    Some(current::get()).filter(|&handle| handle != 0).map(ContextId)
}

/// Makes a context current on this thread, or none.
///
/// # Errors
/// It is gone.
pub fn set_current(context: Option<ContextId>) -> Result<(), Error> {
    let handle = match context {
        Some(id) => find(id)?.handle,
        None => 0,
    };
    current::set(handle);
    Ok(())
}

/// The number of a context's device.
///
/// # Errors
/// It is gone.
pub fn device_of_context(context: ContextId) -> Result<usize, Error> {
    find(context).map(|context| context.device)
}

/// Why calls on a context fail, if they do.
///
/// # Errors
/// That, or that it is gone.
pub fn check(context: ContextId) -> Result<(), Error> {
    find(context)?.check()
}

/// The number of the device of a stream; null is the default stream of the current context.
///
/// # Errors
/// An unknown stream, no current context.
pub fn device_of_stream(stream: *mut c_void) -> Result<usize, Error> {
    device_of_context(context_of_stream(stream.addr())?)
}

/// The context of a stream.
///
/// # Errors
/// As [`device_of_stream`].
pub fn context_of_stream(stream: usize) -> Result<ContextId, Error> {
    let mut state = state();
    let handle = queue::resolve(&mut state, stream)?;
    let found = state.streams.get(&handle).ok_or_else(|| queue::bad_handle("stream", handle))?;
    Ok(ContextId(found.context.handle))
}

/// Reports a violation, whose kind is the first line of `text`, and makes all later calls on the current context fail with
/// [`Code::LaunchFailed`]. Work of the context that waits is cancelled. Without a current context it only reports.
pub fn fail_context(text: &str) {
    let (kind, rest) = text.split_once('\n').unwrap_or((text, ""));
    match current_context().map(find) {
        Some(Ok(context)) => drop(context.violate(kind, Code::LaunchFailed, rest)),
        _ => report::violation(kind, rest),
    }
}

fn find(ContextId(handle): ContextId) -> Result<Arc<Context>, Error> {
    let gone = || Error::new(Code::InvalidContext, format!("context {handle:#x} is gone, or never was"));
    state().contexts.get(&handle).map(|entry| Arc::clone(&entry.context)).ok_or_else(gone)
}
