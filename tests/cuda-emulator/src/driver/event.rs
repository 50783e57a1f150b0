//! Events: points in the work of streams.
//!
//! An event that was never recorded counts as complete. A wait takes the event as it is when the wait is queued: recording it
//! again does not change what was queued.

use std::sync::Arc;

use super::code::{Code, Error};
use super::queue::{self, Order, bad_handle};
use super::state::{Event, State, state};
use super::wait::wait_here;
use super::{current, host, process};
use crate::place::Place;

fn find(state: &State, handle: usize) -> Result<&Event, Error> {
    state.events.get(&handle).ok_or_else(|| bad_handle("event", handle))
}

/// `cuEventCreate`, on the current context.
///
/// # Errors
/// None is current, or it failed.
pub fn create_event(has_timing: bool) -> Result<usize, Error> {
    let made = Place::here();
    let mut state = state();
    let context = current::context(&state)?;
    context.check()?;
    let handle = process::next_handle();
    state.events.insert(handle, Event { context, has_timing, recorded: None, recorded_on: 0, made });
    Ok(handle)
}

/// `cuEventDestroy`: what waits for it goes on waiting.
///
/// # Errors
/// It is unknown, or its context failed; it is gone then also.
pub fn destroy_event(handle: usize) -> Result<(), Error> {
    state().events.remove(&handle).ok_or_else(|| bad_handle("event", handle))?.context.check()
}

/// `cuEventRecord`: the event stands for all that is on the stream by now.
///
/// # Errors
/// An unknown event or stream, one of another context, a context that failed.
pub fn record_event(event: usize, stream: usize) -> Result<(), Error> {
    let on = {
        let mut state = state();
        let stream = queue::resolve(&mut state, stream)?;
        let of_stream = state.streams.get(&stream).map(|stream| Arc::clone(&stream.context));
        let is_same =
            of_stream.is_some_and(|context| find(&state, event).is_ok_and(|e| Arc::ptr_eq(&e.context, &context)));
        find(&state, event)?;
        if !is_same {
            return Err(Error::new(Code::InvalidHandle, "the event and the stream are of different contexts"));
        }
        stream
    };
    let mark = queue::put(stream, Order::nothing("cuEventRecord"))?;
    let mut state = state();
    let event = state.events.get_mut(&event).ok_or_else(|| bad_handle("event", event))?;
    (event.recorded, event.recorded_on) = (Some(mark), on);
    Ok(())
}

/// `cuStreamWaitEvent`: what comes next on the stream waits for what the event stands for now.
///
/// # Errors
/// An unknown event or stream, a context that failed.
pub fn wait_event(stream: usize, event: usize) -> Result<(), Error> {
    let recorded = find(&state(), event)?.recorded.clone();
    let order = Order { waits_for: recorded.into_iter().collect(), ..Order::nothing("cuStreamWaitEvent") };
    queue::put(stream, order).map(drop)
}

/// Whether a wait of the stream for the event orders anything: not for one that was never recorded, nor for the stream's own, as
/// cudarc puts them.
pub fn wait_orders(stream: usize, event: usize) -> bool {
    let mut state = state();
    let Ok(stream) = queue::resolve(&mut state, stream) else { return false };
    state.events.get(&event).is_some_and(|event| event.recorded.is_some() && event.recorded_on != stream)
}

/// `cuEventQuery`: whether what the event stands for is done.
///
/// # Errors
/// An unknown event, a context that failed.
pub fn query_event(handle: usize) -> Result<bool, Error> {
    let event = find(&state(), handle)?.clone();
    event.context.check()?;
    let Some(mark) = event.recorded else { return Ok(true) };
    let Some(end) = mark.end() else { return Ok(false) };
    host::learn(&end.clock);
    // The work itself may have failed it.
    event.context.check()?;
    Ok(true)
}

/// `cuEventSynchronize`: waits here until what the event stands for is done.
///
/// # Errors
/// An unknown event, a context that failed or fails meanwhile.
pub fn synchronize_event(handle: usize) -> Result<(), Error> {
    let event = find(&state(), handle)?.clone();
    event.context.check()?;
    wait_here(event.recorded.iter(), &event.context)
}

/// `cuEventElapsedTime`: milliseconds from one event to the other.
///
/// # Errors
/// An unknown event, one without timing or not recorded; [`Code::NotReady`] where one is not done.
pub fn elapsed_ms(start: usize, end: usize) -> Result<f32, Error> {
    let at = |handle| -> Result<_, Error> {
        let event = find(&state(), handle)?.clone();
        event.context.check()?;
        let mark = event.recorded.filter(|_| event.has_timing);
        let mark =
            mark.ok_or_else(|| Error::new(Code::InvalidHandle, "the event has no timing or was not recorded"))?;
        let end = mark.end().ok_or_else(|| Error::new(Code::NotReady, "the event is not done"))?;
        Ok(end.at)
    };
    let (start, end) = (at(start)?, at(end)?);
    let backwards = start.saturating_duration_since(end).as_secs_f32();
    Ok((end.saturating_duration_since(start).as_secs_f32() - backwards) * 1e3)
}
