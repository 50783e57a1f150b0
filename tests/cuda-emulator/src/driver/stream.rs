//! Streams' workers: each runs the pieces of its stream in the order in which they were queued.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use super::context::Context;
use super::current;
use super::mark::Mark;
use super::work::{OnStream, Stated};
use crate::clock::Clock;
use crate::job::Run;

/// A piece of work in a queue.
pub(super) struct Job {
    pub(super) mark: Arc<Mark>,
    /// What it waits for, besides what is before it on the stream.
    pub(super) waits_for: Vec<Arc<Mark>>,
    /// What it may touch.
    pub(super) stated: Vec<Stated>,
    pub(super) run: Run,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    is_closed: bool,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    has_more: Condvar,
}

/// The queue of a stream, run by a thread of its own until the queue is closed and empty. The thread is not waited for, so
/// that work which hangs does not keep the process from ending.
pub(super) struct Worker(Arc<Shared>);

impl Worker {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system has none left.
    pub(super) fn start(number: usize, context: Arc<Context>) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let worker = Arc::clone(&shared);
        let builder = std::thread::Builder::new().name(format!("cuda-stream-{number}"));
        builder.spawn(move || run_all(&worker, &context))?;
        Ok(Self(shared))
    }

    /// One more.
    pub(super) fn push(&self, job: Job) {
        self.0.queue.lock().unwrap_or_else(PoisonError::into_inner).jobs.push_back(job);
        self.0.has_more.notify_one();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.0.queue.lock().unwrap_or_else(PoisonError::into_inner).is_closed = true;
        self.0.has_more.notify_one();
    }
}

fn next(shared: &Shared) -> Option<Job> {
    let mut queue = shared.queue.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        if let Some(job) = queue.jobs.pop_front() {
            return Some(job);
        }
        if queue.is_closed {
            return None;
        }
        queue = shared.has_more.wait(queue).unwrap_or_else(PoisonError::into_inner);
    }
}

fn run_all(shared: &Shared, context: &Arc<Context>) {
    current::set(context.handle);
    let mut clock = Clock::default();
    while let Some(job) = next(shared) {
        clock = run(job, context, clock);
    }
}

/// Runs one piece after what `clock` says, and gives what comes after it.
fn run(job: Job, context: &Arc<Context>, mut clock: Clock) -> Clock {
    let Job { mark, waits_for, stated, run } = job;
    clock.join(&mark.piece.known);
    for before in waits_for {
        if let Some(end) = before.wait(|| context.is_over()) {
            clock.join(&end.clock);
        }
    }
    let mut work = OnStream { context, piece: &mark.piece, stated, clock };
    work.begin();
    if !context.is_over() {
        match catch_unwind(AssertUnwindSafe(|| run(&mut work))) {
            Ok(Ok(())) => {}
            Ok(Err(text)) => context.work_failed(&mark.piece.what, &text),
            Err(_) => context.work_failed(&mark.piece.what, "it panicked"),
        }
    }
    let clock = work.end();
    mark.set_end(clock.clone());
    clock
}
