//! Waiting on the host, and streams as such.

use std::sync::Arc;

use super::code::Error;
use super::context::Context;
use super::mark::Mark;
use super::queue::{self, Order, bad_handle};
use super::state::{Role, State, Stream, state};
use super::{current, host};

/// Waits for pieces of work, of which this thread then knows that they are done.
pub(super) fn wait_here<'a>(marks: impl Iterator<Item = &'a Arc<Mark>>, context: &Context) -> Result<(), Error> {
    for mark in marks {
        let Some(end) = mark.wait(|| context.is_over()) else { break };
        host::learn(&end.clock);
    }
    context.check()
}

/// What is on a stream, with what its role adds.
fn lasts(state: &State, stream: &Stream) -> Vec<Arc<Mark>> {
    let mut marks: Vec<_> = stream.last.iter().cloned().collect();
    if stream.role == Role::Default {
        marks.extend(state.lasts(&stream.context, |other| other.role == Role::Blocking));
    }
    marks
}

fn marks_of(handle: usize) -> Result<(Vec<Arc<Mark>>, Arc<Context>), Error> {
    let mut state = state();
    let handle = queue::resolve(&mut state, handle)?;
    let stream = state.streams.get(&handle).ok_or_else(|| bad_handle("stream", handle))?;
    stream.context.check()?;
    Ok((lasts(&state, stream), Arc::clone(&stream.context)))
}

/// `cuStreamSynchronize`: waits here for all that is on the stream.
///
/// # Errors
/// An unknown stream, a context that failed or fails meanwhile.
pub fn synchronize_stream(handle: usize) -> Result<(), Error> {
    let (marks, context) = marks_of(handle)?;
    wait_here(marks.iter(), &context)
}

/// `cuStreamQuery`: whether all that is on the stream is done.
///
/// # Errors
/// An unknown stream, a context that failed.
pub fn query_stream(handle: usize) -> Result<bool, Error> {
    let (marks, context) = marks_of(handle)?;
    if marks.iter().any(|mark| mark.end().is_none()) {
        return Ok(false);
    }
    wait_here(marks.iter(), &context)?;
    Ok(true)
}

/// `cuCtxSynchronize`: waits here for all that is on any stream of the current context.
///
/// # Errors
/// No context is current, or it failed or fails meanwhile.
pub fn synchronize_context() -> Result<(), Error> {
    let (marks, context) = {
        let mut state = state();
        let context = current::context(&state)?;
        (state.all_lasts(&context), context)
    };
    context.check()?;
    wait_here(marks.iter(), &context)
}

/// `cuStreamCreate`, on the current context.
///
/// # Errors
/// None is current, or it failed, or the system has no thread left.
pub fn create_stream(is_blocking: bool) -> Result<usize, Error> {
    let mut state = state();
    let context = current::context(&state)?;
    context.check()?;
    state.add_stream(&context, if is_blocking { Role::Blocking } else { Role::NonBlocking })
}

/// `cuStreamDestroy`: at once, while what is on it goes on.
///
/// # Errors
/// It is unknown, or its context failed; it is gone then also.
pub fn destroy_stream(handle: usize) -> Result<(), Error> {
    let mut state = state();
    let stream = state.streams.get(&handle).ok_or_else(|| bad_handle("stream", handle))?;
    if stream.role == Role::Default {
        return Err(bad_handle("stream", handle));
    }
    let Stream { context, last, .. } = state.streams.remove(&handle).ok_or_else(|| bad_handle("stream", handle))?;
    if let Some(entry) = state.contexts.get_mut(&context.handle) {
        entry.draining.extend(last);
    }
    context.check()
}

/// `cuLaunchHostFunc`: a call of the host's in a stream's order.
///
/// # Errors
/// An unknown stream, or a context that failed.
pub fn launch_host(stream: usize, call: Box<dyn FnOnce() + Send>) -> Result<(), Error> {
    let run = Box::new(|_: &mut dyn crate::job::Work| {
        call();
        Ok(())
    });
    queue::put(stream, Order::new("cuLaunchHostFunc", Vec::new(), run)).map(drop)
}
