//! Putting work on streams: the one way by which anything gets there.

use std::sync::Arc;

use super::code::{Code, Error};
use super::context::Context;
use super::mark::Mark;
use super::memory::{Bad, indent};
use super::state::{Role, State, Stream, state};
use super::work::{Job, Stated};
use super::{current, host, process, races};
use crate::clock::Clock;
use crate::job::{Access, Run};
use crate::place::Place;
use crate::race::{Piece, Race};

/// The default stream, also under the name that says that it is the old kind.
const LEGACY: usize = 1;
/// The default stream of the calling thread.
const PER_THREAD: usize = 2;

/// Work to be queued.
pub(super) struct Order<'a> {
    pub(super) what: &'a str,
    pub(super) accesses: Vec<Access>,
    /// Points of other streams that it waits for.
    pub(super) waits_for: Vec<Arc<Mark>>,
    /// Whether peers may tell it something.
    pub(super) learns: bool,
    /// Whether it is the free of memory, which its last owner does.
    pub(super) is_free: bool,
    pub(super) run: Run,
}

impl<'a> Order<'a> {
    /// Of that name, with what it touches and does.
    pub(super) fn new(what: &'a str, accesses: Vec<Access>, run: Run) -> Self {
        Self { what, accesses, waits_for: Vec::new(), learns: false, is_free: false, run }
    }

    /// That does nothing but to have its place.
    pub(super) fn nothing(what: &'a str) -> Self {
        Self::new(what, Vec::new(), Box::new(|_| Ok(())))
    }
}

/// Finds a stream by its handle, as callers give it.
///
/// # Errors
/// It is unknown, or it is a default stream and no context is current.
pub(super) fn resolve(state: &mut State, handle: usize) -> Result<usize, Error> {
    match handle {
        0 | LEGACY => {
            let context = current::context(state)?;
            state.contexts.get(&context.handle).map(|entry| entry.default)
        }
        PER_THREAD => {
            let context = current::context(state)?;
            let thread = std::thread::current().id();
            let known = state.contexts.get(&context.handle).and_then(|entry| entry.per_thread.get(&thread).copied());
            match known {
                Some(stream) => Some(stream),
                None => {
                    let stream = state.add_stream(&context, Role::Blocking)?;
                    state.contexts.get_mut(&context.handle).map(|entry| {
                        entry.per_thread.insert(thread, stream);
                        stream
                    })
                }
            }
        }
        _ => state.streams.contains_key(&handle).then_some(handle),
    }
    .ok_or_else(|| bad_handle("stream", handle))
}

/// There is no stream or event of that handle.
pub(super) fn bad_handle(kind: &str, handle: usize) -> Error {
    let was = if process::was_handle(handle) { "was destroyed" } else { "never was" };
    Error::new(Code::InvalidHandle, format!("{kind} {handle:#x} {was}"))
}

/// What comes before a new piece of a stream: the clock, the open pieces, and what has to be waited for.
struct Before {
    clock: Clock,
    open: Clock,
    waits_for: Vec<Arc<Mark>>,
}

impl Before {
    /// Adds a piece; says whether it has ended. It may do so at any time, so that is looked at only once.
    fn add(&mut self, mark: &Mark) -> bool {
        match mark.end() {
            // It has learnt all that it will.
            Some(end) => {
                self.clock.join(&end.clock);
                true
            }
            None => {
                self.clock.join(&mark.piece.known);
                self.open.join(&mark.piece.open);
                if mark.piece.learns {
                    self.open.raise(mark.piece.actor, mark.piece.number);
                }
                false
            }
        }
    }
}

fn before(state: &State, stream: &Stream, order: &mut Order<'_>) -> Before {
    let mut clock = host::known_here();
    if order.is_free {
        clock.join(&host::learnt_by_any());
    }
    let mut waits_for = std::mem::take(&mut order.waits_for);
    match stream.role {
        Role::Default => waits_for.extend(state.lasts(&stream.context, |other| other.role == Role::Blocking)),
        Role::Blocking => waits_for.extend(state.lasts(&stream.context, |other| other.role == Role::Default)),
        Role::NonBlocking => {}
    }
    let mut before = Before { clock, open: Clock::default(), waits_for: Vec::new() };
    if let Some(last) = &stream.last {
        before.add(last);
    }
    waits_for.retain(|mark| !before.add(mark));
    before.waits_for = waits_for;
    before
}

/// Puts work on a stream. Nothing is queued where that fails.
///
/// # Errors
/// An unknown stream, a context that failed, memory that is not there, a race.
pub(super) fn put(handle: usize, order: Order<'_>) -> Result<Arc<Mark>, Error> {
    put_at(handle, order, Place::here())
}

fn put_at(handle: usize, mut order: Order<'_>, place: Place) -> Result<Arc<Mark>, Error> {
    let mut guard = state();
    let state = &mut *guard;
    let handle = resolve(state, handle)?;
    let stream = state.streams.get(&handle).ok_or_else(|| bad_handle("stream", handle))?;
    let context = Arc::clone(&stream.context);
    context.check()?;
    let what = format!("{} on {}", order.what, stream.name);
    let Before { mut clock, open, waits_for } = before(state, stream, &mut order);
    let number = stream.n_pieces + 1;
    clock.raise(stream.actor, number);
    let piece = Piece { actor: stream.actor, number, what, place, known: clock, open, learns: order.learns };
    let piece = Arc::new(piece);
    let (stated, found) = match touch(state, &context, &piece, &order.accesses) {
        Ok(fine) => fine,
        Err(bad) => {
            drop(guard);
            return Err(bad_access(&context, &piece, &bad));
        }
    };
    if !found.is_empty() {
        let learnt = host::learnt_by_any();
        let error = races::report(guard, &context, &found, Some(&learnt));
        return Err(error.unwrap_or_else(|| Error::new(Code::Assert, "a race")));
    }
    let mark = Mark::new(piece);
    let stream = state.streams.get_mut(&handle).ok_or_else(|| bad_handle("stream", handle))?;
    stream.n_pieces = number;
    stream.last = Some(Arc::clone(&mark));
    let job = Job { mark: Arc::clone(&mark), waits_for, stated, run: order.run };
    stream.worker.push(Box::new(move |clock| {
        current::set(context.handle);
        job.run(&context, clock)
    }));
    Ok(mark)
}

/// Finds what a piece touches and compares it with what touched that before.
fn touch(
    state: &mut State,
    context: &Arc<Context>,
    piece: &Arc<Piece>,
    accesses: &[Access],
) -> Result<(Vec<Stated>, Vec<Race>), Bad> {
    let accesses: Vec<_> = accesses.iter().filter(|access| access.n_bytes > 0).collect();
    for access in &accesses {
        state.memory.find(access.address, access.n_bytes, context)?;
    }
    let (mut stated, mut races) = (Vec::new(), Vec::new());
    for &access in accesses {
        let (allocation, range) = state.memory.find(access.address, access.n_bytes, context)?;
        let bytes = Arc::clone(&allocation.bytes);
        let (touch, found) = state.tracker.add(allocation.address, piece, access.kind, range.clone());
        races.extend(found);
        stated.push(Stated { access, bytes, range, touch });
    }
    Ok((stated, races))
}

/// Reports an access that cannot be.
fn bad_access(context: &Context, piece: &Piece, bad: &Bad) -> Error {
    let text = format!("{}\n{}\n{}", piece.what, indent(&piece.place.to_string()), bad.describe());
    context.violate(bad.kind, Code::IllegalAddress, &text)
}
