//! Streams' workers: each runs the pieces of its stream in the order in which they were queued.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use crate::clock::Clock;

/// A piece of work in a queue: runs after what a clock has, and gives what comes after it.
pub(super) type Job = Box<dyn FnOnce(Clock) -> Clock + Send>;

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
    pub(super) fn start(number: usize) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let worker = Arc::clone(&shared);
        let builder = std::thread::Builder::new().name(format!("cuda-stream-{number}"));
        builder.spawn(move || run_all(&worker))?;
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

fn run_all(shared: &Shared) {
    let mut clock = Clock::default();
    while let Some(job) = next(shared) {
        clock = job(clock);
    }
}
