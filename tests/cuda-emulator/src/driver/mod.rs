//! The driver half: what CUDA's driver does with contexts, memory, streams, events and copies, on host memory.
//!
//! # How it behaves
//! - **Contexts**: a primary one per device, and others. A context that had a violation has failed: that call and all later
//!   ones return its code, work that waits is cancelled, what is queued is skipped. Its release waits ten seconds for its work,
//!   reports what is left of it (`work left`), and then what was not freed (`leak`) unless it had failed.
//! - **Streams**: first in, first out, each on a thread of its own. The default stream is CUDA's old kind: what is put on it waits
//!   for all that was on blocking streams by then, and what is put on those waits for it; streams made with the flag
//!   `NON_BLOCKING` are not ordered with it. Handle 2 is the calling thread's own default stream, a blocking one. Priorities are
//!   taken and change nothing.
//! - **Events**: see `event`. **Memory**: see `memory` and `heap`. **Copies**: see `copy`. **Host threads**: see `host`.
//!   **Races**: see [`race`](crate::race).
//! - Calls that wait on the host have no deadline, as CUDA's have none; they end when the context fails.
//! - A handle of a stream or event that was destroyed is refused as an invalid handle.
//! - A device has 16 GiB, of which only what is written takes memory of the host.
//!
//! # Rooms
//! Each uses only those above it: `code`, `process`, `host` (what threads know), `written`, `bytes`, `context`, `memory`, `mark`,
//! `stream` (workers), `state` (all there is), `current`, `races` (reports), `work` (pieces as they run), `queue` (the one way
//! onto a stream), `wait`, `event`, `heap`, `copy`, `lifecycle`.

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
pub use context::ContextId;
pub use copy::{copy, copy_async, copy_in, copy_in_async, copy_out, fill, is_pinned};
pub use event::{
    create_event, destroy_event, elapsed_ms, query_event, record_event, synchronize_event, wait_event, wait_orders,
};
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
