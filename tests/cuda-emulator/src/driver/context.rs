//! Contexts: whether they have failed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::code::{Code, Error};
use crate::report;

/// A context, by its handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContextId(pub(crate) usize);

/// A context. Once it has failed, so does every call on it, as with CUDA's own errors of that kind.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) handle: usize,
    pub(super) device: usize,
    failure: Mutex<Option<Error>>,
    is_over: AtomicBool,
}

impl Context {
    pub(super) fn new(handle: usize, device: usize) -> Arc<Self> {
        Arc::new(Self { handle, device, failure: Mutex::default(), is_over: AtomicBool::new(false) })
    }

    /// Why calls on it fail, if they do.
    pub(super) fn check(&self) -> Result<(), Error> {
        // Most calls are on contexts that are fine, and this is asked in loops.
        if !self.is_over() {
            return Ok(());
        }
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Err(failure.unwrap_or_else(|| Error::new(Code::ContextIsDestroyed, "the context was released")))
    }

    /// Whether it has failed or is going away, so that nothing should wait for anything of it.
    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Reports a violation, and has this and all later calls fail.
    pub(super) fn violate(&self, kind: &str, code: Code, text: &str) -> Error {
        report::violation(kind, text);
        let error = Error::new(code, format!("{kind}: {text}"));
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| error.clone());
        self.is_over.store(true, Ordering::Release);
        error
    }

    /// Work failed. Only a report of its own where the context was fine.
    pub(super) fn work_failed(&self, what: &str, text: &str) {
        if !self.is_over() {
            self.violate("failed work", Code::LaunchFailed, &format!("{what}\n{text}"));
        }
    }

    /// It is going away: nothing waits any longer.
    pub(super) fn cancel(&self) {
        self.is_over.store(true, Ordering::Release);
    }
}
