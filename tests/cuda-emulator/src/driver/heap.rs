//! Making and freeing memory.
//!
//! `cuMemAllocAsync` and `cuMemFreeAsync` count as writes of all of the memory in the order of their stream, so that a use
//! elsewhere which is not ordered after the one and before the other is a race. `cuMemFree` waits for all of its context, as
//! CUDA's does. A free of pinned memory waits for nothing here: what still copies from or to it races with the free.

use std::sync::Arc;

use super::bytes::Bytes;
use super::code::{Code, Error};
use super::context::Context;
use super::memory::{Bad, Call, indent};
use super::queue::{self, Order};
use super::state::state;
use super::wait::wait_here;
use super::{current, host, races};
use crate::clock::Clock;
use crate::job::{Access, Kind};
use crate::place::Place;
use crate::race::Piece;

fn no_size() -> Error {
    Error::new(Code::InvalidValue, "0 bytes")
}

fn out_of_memory(n_bytes: usize) -> Error {
    Error::new(Code::OutOfMemory, format!("{n_bytes} bytes"))
}

/// `cuMemAlloc`, on the current context.
///
/// # Errors
/// None is current, or it failed, or no bytes are asked for, or more than there are.
pub fn allocate(n_bytes: usize) -> Result<u64, Error> {
    let made = Call { what: "cuMemAlloc".to_owned(), place: Place::here() };
    let mut state = state();
    let context = current::context(&state)?;
    context.check()?;
    if n_bytes == 0 {
        return Err(no_size());
    }
    state.memory.allocate(&context, n_bytes, made).ok_or_else(|| out_of_memory(n_bytes))
}

/// `cuMemAllocAsync`: there from then on in the stream's order.
///
/// # Errors
/// As [`allocate`], and an unknown stream.
pub fn allocate_async(n_bytes: usize, stream: usize) -> Result<u64, Error> {
    let made = Call { what: "cuMemAllocAsync".to_owned(), place: Place::here() };
    let address = {
        let mut state = state();
        let stream = queue::resolve(&mut state, stream)?;
        let context = state.streams.get(&stream).map(|stream| Arc::clone(&stream.context));
        let context = context.ok_or_else(|| queue::bad_handle("stream", stream))?;
        context.check()?;
        if n_bytes == 0 {
            return Err(no_size());
        }
        state.memory.allocate(&context, n_bytes, made).ok_or_else(|| out_of_memory(n_bytes))?
    };
    let whole = vec![Access { address, n_bytes, kind: Kind::Write }];
    queue::put(stream, Order { accesses: whole, ..Order::nothing("cuMemAllocAsync") })?;
    Ok(address)
}

/// `cuMemFreeAsync`: gone from then on in the stream's order. What is queued later must not use it.
///
/// # Errors
/// No memory begins there, or it was freed already; an unknown stream; a race.
pub fn free_async(address: u64, stream: usize) -> Result<(), Error> {
    if address == 0 {
        return Ok(());
    }
    let freed = Call { what: "cuMemFreeAsync".to_owned(), place: Place::here() };
    let (context, n_bytes, bytes) = whole(address, false, &freed)?;
    let device = context.device;
    let run = Box::new(move |_: &mut dyn crate::job::Work| {
        release(&bytes, Some(device));
        Ok(())
    });
    let accesses = vec![Access { address, n_bytes, kind: Kind::Write }];
    queue::put(stream, Order { is_free: true, ..Order::new("cuMemFreeAsync", accesses, run) })?;
    mark_freed(address, freed);
    Ok(())
}

/// `cuMemFree`: waits for all work of the context first.
///
/// # Errors
/// No memory begins there, or it was freed already; a context that failed or fails meanwhile.
pub fn free(address: u64) -> Result<(), Error> {
    if address == 0 {
        return Ok(());
    }
    let freed = Call { what: "cuMemFree".to_owned(), place: Place::here() };
    let (context, n_bytes, bytes) = whole(address, false, &freed)?;
    let marks = state().all_lasts(&context);
    wait_here(marks.iter(), &context)?;
    free_here(&context, address, n_bytes, freed)?;
    release(&bytes, Some(context.device));
    Ok(())
}

/// `cuMemHostAlloc`: pinned memory of the host, on the current context. Gives its address.
///
/// # Errors
/// As [`allocate`].
pub fn allocate_host(n_bytes: usize) -> Result<u64, Error> {
    let made = Call { what: "cuMemHostAlloc".to_owned(), place: Place::here() };
    let mut state = state();
    let context = current::context(&state)?;
    context.check()?;
    if n_bytes == 0 {
        return Err(no_size());
    }
    let (bytes, address) = Bytes::of_host(n_bytes).ok_or_else(|| out_of_memory(n_bytes))?;
    // The host's allocator may have given the same address before.
    state.tracker.forget(address);
    state.memory.insert_host(address, &context, made, bytes);
    Ok(address)
}

/// `cuMemFreeHost`.
///
/// # Errors
/// No pinned memory begins there, or it was freed already; a copy from or to it may be under way.
pub fn free_host(address: u64) -> Result<(), Error> {
    let freed = Call { what: "cuMemFreeHost".to_owned(), place: Place::here() };
    let (context, n_bytes, bytes) = whole(address, true, &freed)?;
    free_here(&context, address, n_bytes, freed)?;
    release(&bytes, None);
    Ok(())
}

/// What begins at an address, about to be freed.
fn whole(address: u64, is_host: bool, call: &Call) -> Result<(Arc<Context>, usize, Arc<Bytes>), Error> {
    let (bad, context) = {
        let state = state();
        match state.memory.find_whole(address, is_host) {
            Ok(found) => {
                found.context.check()?;
                return Ok((Arc::clone(&found.context), found.n_bytes, Arc::clone(&found.bytes)));
            }
            Err(bad) => (bad, current::context(&state)?),
        }
    };
    context.check()?;
    Err(bad_free(&context, &bad, call))
}

fn bad_free(context: &Context, bad: &Bad, Call { what, place }: &Call) -> Error {
    let text = format!("{what}\n{}\n{}", indent(&place.to_string()), bad.describe());
    context.violate(bad.kind, Code::IllegalAddress, &text)
}

/// Frees here and now, in the order of the host thread.
fn free_here(context: &Arc<Context>, address: u64, n_bytes: usize, freed: Call) -> Result<(), Error> {
    let (actor, number) = host::own_piece();
    let mut known = host::known_here();
    known.join(&host::learnt_by_any());
    known.raise(actor, number);
    let Call { what, place } = freed.clone();
    let piece =
        Arc::new(Piece { actor, number, what, place, known: known.clone(), open: Clock::default(), learns: false });
    let mut state = state();
    let (touch, mut found) = state.tracker.add(address, &piece, Kind::Write, 0..n_bytes);
    found.extend(state.tracker.settle(&touch, &known));
    if let Some(error) = races::report(state, context, &found, None) {
        return Err(error);
    }
    mark_freed(address, freed);
    Ok(())
}

fn mark_freed(address: u64, freed: Call) {
    let mut state = state();
    if let Some(forgotten) = state.memory.mark_freed(address, freed) {
        state.tracker.forget(forgotten);
    }
}

/// The free happens; `device` had the bytes.
fn release(bytes: &Bytes, device: Option<usize>) {
    bytes.free();
    if let Some(device) = device {
        state().memory.release(device, bytes.len());
    }
}
