//! What there is in the process: contexts, streams, events, memory, and who touched it. One lock is around all of it, held for
//! moments: never while work runs, bytes are copied, something is waited for, or a report is written.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use super::code::{Code, Error};
use super::context::Context;
use super::mark::Mark;
use super::memory::Memory;
use super::process;
use super::stream::Worker;
use crate::clock::Actor;
use crate::race::Tracker;

/// Everything.
#[derive(Default)]
pub(super) struct State {
    pub(super) contexts: HashMap<usize, Entry>,
    /// By device: the handle of its primary context, and how often that is retained.
    pub(super) primaries: HashMap<usize, (usize, usize)>,
    pub(super) streams: HashMap<usize, Stream>,
    pub(super) events: HashMap<usize, Event>,
    pub(super) memory: Memory,
    pub(super) tracker: Tracker,
}

/// A context.
pub(super) struct Entry {
    pub(super) context: Arc<Context>,
    /// The handle of its default stream.
    pub(super) default: usize,
    /// By host thread: the handles of their default streams.
    pub(super) per_thread: HashMap<std::thread::ThreadId, usize>,
    /// What streams that were destroyed did last.
    pub(super) draining: Vec<Arc<Mark>>,
}

/// A stream.
pub(super) struct Stream {
    pub(super) context: Arc<Context>,
    pub(super) actor: Actor,
    pub(super) name: String,
    /// How it is ordered with the default stream.
    pub(super) role: Role,
    /// How many pieces were queued.
    pub(super) n_pieces: u64,
    /// The last.
    pub(super) last: Option<Arc<Mark>>,
    pub(super) worker: Worker,
}

/// How a stream is ordered with the default stream of its context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// It is that.
    Default,
    /// Each waits for what was queued on the other before.
    Blocking,
    /// Not at all.
    NonBlocking,
}

/// An event.
#[derive(Clone)]
pub(super) struct Event {
    pub(super) context: Arc<Context>,
    pub(super) has_timing: bool,
    /// What it stands for, once recorded.
    pub(super) recorded: Option<Arc<Mark>>,
    /// The stream that it was recorded on.
    pub(super) recorded_on: usize,
    /// Where it was made.
    pub(super) made: crate::place::Place,
}

static STATE: LazyLock<Mutex<State>> = LazyLock::new(Mutex::default);

/// All of it, locked.
pub(super) fn state() -> MutexGuard<'static, State> {
    // What a panic left behind is still the best there is.
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    /// A new stream of a context, with its worker.
    ///
    /// # Errors
    /// The system has no thread left.
    pub(super) fn add_stream(&mut self, context: &Arc<Context>, role: Role) -> Result<usize, Error> {
        let handle = process::next_handle();
        let name = match role {
            Role::Default => format!("the default stream of device {}", context.device),
            _ => format!("stream {} of device {}", process::short(handle), context.device),
        };
        let worker = Worker::start(process::short(handle))
            .map_err(|error| Error::new(Code::OutOfMemory, format!("no thread for a stream: {error}")))?;
        let actor = process::next_actor();
        let context = Arc::clone(context);
        self.streams.insert(handle, Stream { context, actor, name, role, n_pieces: 0, last: None, worker });
        Ok(handle)
    }

    /// What was queued last on each of a context's streams that fits.
    pub(super) fn lasts(&self, context: &Arc<Context>, fits: impl Fn(&Stream) -> bool) -> Vec<Arc<Mark>> {
        let of_it = self.streams.values().filter(|stream| Arc::ptr_eq(&stream.context, context) && fits(stream));
        of_it.filter_map(|stream| stream.last.clone()).collect()
    }

    /// What was queued last anywhere on a context.
    pub(super) fn all_lasts(&mut self, context: &Arc<Context>) -> Vec<Arc<Mark>> {
        let mut lasts = self.lasts(context, |_| true);
        if let Some(entry) = self.contexts.get_mut(&context.handle) {
            entry.draining.retain(|mark| mark.end().is_none());
            lasts.extend(entry.draining.iter().cloned());
        }
        lasts
    }
}
