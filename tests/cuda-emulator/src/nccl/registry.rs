//! Handles of communicators, as C code holds them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::comm::Comm;
use super::kinds::Refusal;
use crate::report;

/// Handles look like addresses, but nothing is there.
const FIRST: usize = 0x4e43_0000_0000;
const STEP: usize = 0x40;

fn comms() -> &'static Mutex<HashMap<usize, Arc<Comm>>> {
    static COMMS: OnceLock<Mutex<HashMap<usize, Arc<Comm>>>> = OnceLock::new();
    COMMS.get_or_init(Mutex::default)
}

fn handle(comm: &Comm) -> usize {
    FIRST + comm.number as usize * STEP
}

/// Gives it a handle.
pub(crate) fn add(comm: Arc<Comm>) -> usize {
    let handle = handle(&comm);
    comms().lock().unwrap_or_else(PoisonError::into_inner).insert(handle, comm);
    handle
}

/// The communicator of a handle.
///
/// # Errors
/// There is none; if it is gone, that is a violation.
pub(crate) fn get(handle: usize) -> Result<Arc<Comm>, Refusal> {
    let found = comms().lock().unwrap_or_else(PoisonError::into_inner).get(&handle).cloned();
    found.ok_or_else(|| none(handle))
}

/// The same, and the handle is good for nothing after that.
///
/// # Errors
/// As [`get`].
pub(crate) fn remove(handle: usize) -> Result<Arc<Comm>, Refusal> {
    let found = comms().lock().unwrap_or_else(PoisonError::into_inner).remove(&handle);
    found.ok_or_else(|| none(handle))
}

fn none(handle: usize) -> Refusal {
    let text = match handle {
        0 => "the communicator is null".to_string(),
        _ => format!("there is no communicator {handle:#x}: it was destroyed or aborted, or never was"),
    };
    if handle != 0 {
        report::violation("communicator", &text);
    }
    Refusal::argument(text)
}
