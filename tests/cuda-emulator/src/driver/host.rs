//! What host threads know: of which work they have learnt that it is done.
//!
//! A thread learns by waiting, and by asking where the answer is yes. What it queues is ordered after all that it has learnt.
//! The emulator cannot see how threads hand things to each other (channels, locks), so it takes it thus:
//!
//! - a thread knows what another has learnt only where that is sure or harmless to assume: a new thread, when it makes its
//!   first call, knows what all know by then, and what a thread knew that has ended is known to all;
//! - who frees memory is its last owner, so that a free is ordered after all that any thread has learnt;
//! - else each thread must itself wait or ask for what it relies on: stricter than CUDA, which does not care who waited.
//!   Otherwise it would depend on luck whether a missing wait is found: another thread, a watchdog say, may or may not have
//!   asked by then. A program that hands memory from thread to thread after a wait is reported in error; its reports say that
//!   another thread had waited, and `CUDA_EMULATOR_HOST=process` has all threads of a process know what one knows.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};

use super::process::next_actor;
use crate::clock::{Actor, Clock};

/// Names how threads of a process know of each other: `thread` (as if unset) or `process`.
pub const HOST_VAR: &str = "CUDA_EMULATOR_HOST";

/// What any thread of the process has learnt, and what those that ended had.
#[derive(Debug, Default)]
struct All {
    learnt: Clock,
    ended: Clock,
}

static ALL: Mutex<Option<All>> = Mutex::new(None);
/// How many threads ended, so that the rest look only then.
static N_ENDED: AtomicU64 = AtomicU64::new(0);
static IS_SHARED: LazyLock<bool> = LazyLock::new(|| std::env::var_os(HOST_VAR).is_some_and(|value| value == "process"));

/// Whether [`HOST_VAR`] is understood.
///
/// # Errors
/// What is wrong.
pub(super) fn check_order() -> Result<(), String> {
    match std::env::var_os(HOST_VAR) {
        Some(value) if !["", "thread", "process"].iter().any(|&known| value == known) => {
            Err(format!("{HOST_VAR}={}: must be thread or process", value.display()))
        }
        _ => Ok(()),
    }
}

/// One thread.
struct Host {
    actor: Actor,
    clock: Clock,
    n_ended: u64,
}

thread_local! {
    static HOST: RefCell<Host> = RefCell::new(Host::new());
}

impl Host {
    fn new() -> Self {
        Self { actor: next_actor(), clock: learnt_by_any(), n_ended: N_ENDED.load(Ordering::Acquire) }
    }

    fn catch_up(&mut self) {
        if *IS_SHARED {
            self.clock.join(&learnt_by_any());
        }
        let n_ended = N_ENDED.load(Ordering::Acquire);
        if n_ended != self.n_ended {
            self.n_ended = n_ended;
            with_all(|all| self.clock.join(&all.ended));
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        with_all(|all| all.ended.join(&self.clock));
        N_ENDED.fetch_add(1, Ordering::AcqRel);
    }
}

fn with_all<T>(f: impl FnOnce(&mut All) -> T) -> T {
    f(ALL.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default())
}

/// What any thread of the process has learnt.
pub(super) fn learnt_by_any() -> Clock {
    with_all(|all| all.learnt.clone())
}

/// What this thread knows. Nothing, while it is ending.
pub(super) fn known_here() -> Clock {
    HOST.try_with(|host| {
        let mut host = host.borrow_mut();
        host.catch_up();
        host.clock.clone()
    })
    .unwrap_or_else(|_| learnt_by_any())
}

/// This thread has learnt that work is done.
pub(super) fn learn(clock: &Clock) {
    with_all(|all| all.learnt.join(clock));
    // A thread that is ending uses what all have learnt.
    let _ = HOST.try_with(|host| host.borrow_mut().clock.join(clock));
}

/// One more piece of this thread's own work: its actor and number.
pub(super) fn own_piece() -> (Actor, u64) {
    HOST.try_with(|host| {
        let mut host = host.borrow_mut();
        let actor = host.actor;
        (actor, host.clock.tick(actor))
    })
    .unwrap_or_else(|_| (next_actor(), 1))
}
