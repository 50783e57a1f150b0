//! Devices, and the making and releasing of contexts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::code::{Code, Error};
use super::context::{Context, ContextId};
use super::memory::{Allocation, DEVICE_BYTES, indent};
use super::state::{Entry, Event, Role, state};
use super::{current, host, process};
use crate::fault;
use crate::report;

/// How long the release of a context waits for its work, which is then cancelled, and that reported.
const DRAIN: Duration = Duration::from_secs(10);
/// How many leaks are listed in full.
const LISTED: usize = 16;

static IS_INITIALISED: AtomicBool = AtomicBool::new(false);

/// `cuInit`.
///
/// # Errors
/// There is no device, or the number of them is no number, or another variable is not understood.
pub fn init() -> Result<(), Error> {
    fault::asked().and_then(|_| host::check_order()).map_err(|text| Error::new(Code::InvalidValue, text))?;
    if process::n_devices().map_err(|text| Error::new(Code::NoDevice, text))? == 0 {
        return Err(Error::new(Code::NoDevice, format!("{} is 0", process::DEVICES_VAR)));
    }
    IS_INITIALISED.store(true, Ordering::Release);
    Ok(())
}

/// How many devices there are.
///
/// # Errors
/// [`init`] was not called.
pub fn n_devices() -> Result<usize, Error> {
    if !IS_INITIALISED.load(Ordering::Acquire) {
        return Err(Error::new(Code::NotInitialized, "cuInit was not called"));
    }
    process::n_devices().map_err(|text| Error::new(Code::NoDevice, text))
}

/// A device by its number.
///
/// # Errors
/// There is none such, or [`init`] was not called.
pub fn device(number: i32) -> Result<usize, Error> {
    let n = n_devices()?;
    let wrong = || Error::new(Code::InvalidDevice, format!("there is no device {number}: there are {n}"));
    usize::try_from(number).ok().filter(|&device| device < n).ok_or_else(wrong)
}

/// Bytes of a device's memory: how many are free, and how many it has.
pub fn memory_info(device: usize) -> (usize, usize) {
    (DEVICE_BYTES.saturating_sub(state().memory.used(device)), DEVICE_BYTES)
}

/// Retains a device's primary context, making it if it is not there. It does not become current.
///
/// # Errors
/// The system has no thread left.
pub fn retain_primary(device: usize) -> Result<ContextId, Error> {
    if let Some((handle, n_refs)) = state().primaries.get_mut(&device) {
        *n_refs += 1;
        return Ok(ContextId(*handle));
    }
    let ContextId(handle) = make(device)?;
    let mut state = state();
    let (first, n_refs) = state.primaries.entry(device).or_insert((handle, 0));
    *n_refs += 1;
    let first = *first;
    drop(state);
    if first != handle {
        // Another thread was quicker.
        remove(handle)?;
    }
    Ok(ContextId(first))
}

/// Releases a device's primary context. It goes with the last release: see [`destroy`].
///
/// # Errors
/// It is not retained.
pub fn release_primary(device: usize) -> Result<(), Error> {
    let mut state = state();
    let none = || Error::new(Code::InvalidContext, format!("device {device}'s primary context is not retained"));
    let (handle, n_refs) = state.primaries.get_mut(&device).ok_or_else(none)?;
    *n_refs -= 1;
    let (handle, n_refs) = (*handle, *n_refs);
    if n_refs > 0 {
        return Ok(());
    }
    state.primaries.remove(&device);
    drop(state);
    remove(handle)
}

/// Releases a device's primary context whoever else retains it.
///
/// # Errors
/// As [`destroy`].
pub fn reset_primary(device: usize) -> Result<(), Error> {
    let removed = state().primaries.remove(&device);
    removed.map_or(Ok(()), |(handle, _)| remove(handle))
}

/// Makes a context that is not the primary one.
///
/// # Errors
/// The system has no thread left.
pub fn make(device: usize) -> Result<ContextId, Error> {
    let context = Context::new(process::next_handle(), device);
    let handle = context.handle;
    let mut state = state();
    let default = state.add_stream(&context, Role::Default)?;
    let entry = Entry { context, default, per_thread: Default::default(), draining: Vec::new() };
    state.contexts.insert(handle, entry);
    Ok(ContextId(handle))
}

/// Makes a context go away: waits for its work, and lists what was not freed in a report.
///
/// # Errors
/// It is gone already.
pub fn destroy(context: ContextId) -> Result<(), Error> {
    remove(context.0)
}

fn remove(handle: usize) -> Result<(), Error> {
    let gone = || Error::new(Code::InvalidContext, format!("context {handle:#x} is gone"));
    let (context, lasts, per_thread, default) = {
        let mut state = state();
        let entry = state.contexts.get(&handle).ok_or_else(gone)?;
        let per_thread: Vec<_> = entry.per_thread.values().copied().collect();
        let (context, default) = (Arc::clone(&entry.context), entry.default);
        let lasts = state.all_lasts(&context);
        (context, lasts, per_thread, default)
    };
    let was_fine = !context.is_over();
    let until = Instant::now() + DRAIN;
    for mark in lasts {
        match mark.wait(|| context.is_over() || Instant::now() > until) {
            Some(end) => host::learn(&end.clock),
            None if !context.is_over() => {
                let text = format!("{} is not done {DRAIN:?} after its context was released", mark.piece.what);
                let place = indent(&mark.piece.place.to_string());
                context.violate("work left", Code::ContextIsDestroyed, &format!("{text}\n{place}"));
            }
            None => {}
        }
    }
    context.cancel();
    let leaks = {
        let mut state = state();
        state.contexts.remove(&handle);
        state.streams.remove(&default);
        for stream in per_thread {
            state.streams.remove(&stream);
        }
        let allocations = state.memory.remove_context(&context);
        for allocation in &allocations {
            state.tracker.forget(allocation.address);
        }
        let streams = state.streams.extract_if(|_, stream| Arc::ptr_eq(&stream.context, &context));
        let streams: Vec<_> = streams.map(|(_, stream)| stream.name).collect();
        let events = state.events.extract_if(|_, event| Arc::ptr_eq(&event.context, &context));
        Leaks { allocations, streams, events: events.map(|(_, event)| event).collect() }
    };
    // What failed could not clean up.
    if was_fine && let Some(text) = leaks.describe(context.device) {
        report::violation("leak", &text);
    }
    if current::get() == handle {
        current::set(0);
    }
    Ok(())
}

/// What was still there as a context went.
struct Leaks {
    allocations: Vec<Allocation>,
    streams: Vec<String>,
    events: Vec<Event>,
}

impl Leaks {
    fn describe(&self, device: usize) -> Option<String> {
        let Self { allocations, streams, events } = self;
        if allocations.is_empty() && streams.is_empty() && events.is_empty() {
            return None;
        }
        let mut text = format!(
            "not freed as the context of device {device} was released: buffers {}, streams {}, events {}",
            allocations.len(),
            streams.len(),
            events.len()
        );
        let buffers = allocations.iter().map(Allocation::describe);
        let streams = streams.iter().cloned();
        let events = events.iter().map(|event| format!("event made\n{}", indent(&event.made.to_string())));
        for line in buffers.chain(streams).chain(events).take(LISTED) {
            text.push('\n');
            text.push_str(&line);
        }
        Some(text)
    }
}
