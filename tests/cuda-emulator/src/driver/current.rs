//! The context that is current on a thread.

use std::cell::Cell;
use std::sync::Arc;

use super::code::{Code, Error};
use super::context::Context;
use super::state::State;

thread_local! {
    static CURRENT: Cell<usize> = const { Cell::new(0) };
}

/// Its handle; 0 is none.
pub(super) fn get() -> usize {
    CURRENT.try_with(Cell::get).unwrap_or_default()
}

/// Makes one current; 0 is none.
pub(super) fn set(handle: usize) {
    // A thread that is ending makes no more calls that need it.
    let _ = CURRENT.try_with(|current| current.set(handle));
}

/// The context itself.
///
/// # Errors
/// None is current, or that was destroyed.
pub(super) fn context(state: &State) -> Result<Arc<Context>, Error> {
    let handle = get();
    if handle == 0 {
        return Err(Error::new(Code::InvalidContext, "no context is current on this thread"));
    }
    let gone = || Error::new(Code::ContextIsDestroyed, "the context that is current on this thread is gone");
    state.contexts.get(&handle).map(|entry| Arc::clone(&entry.context)).ok_or_else(gone)
}
