//! Locks and atomics of what threads share and wait on: the standard library's, or loom's where its models run (`--cfg loom`),
//! which then try every order in which the threads can go. Waits have no end there: what only a deadline would end is found.

pub(crate) use std::sync::PoisonError;

#[cfg(loom)]
pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard, atomic};
#[cfg(not(loom))]
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, atomic};
