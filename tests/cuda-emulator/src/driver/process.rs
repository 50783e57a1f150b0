//! Numbers of the process.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::clock::Actor;

/// Names how many devices there are.
pub const DEVICES_VAR: &str = "CUDA_EMULATOR_DEVICES";
/// How many there are where it is not set.
const N_DEVICES: usize = 8;
/// How many there are at most: the address of memory says whose it is.
const MAX_DEVICES: usize = 64;

/// Drawn at random, so that the actors of processes differ. The library's hash keys are random per process.
static PROCESS: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(std::process::id()));
static N_ACTORS: AtomicU64 = AtomicU64::new(0);
static N_HANDLES: AtomicUsize = AtomicUsize::new(0);
/// Handles begin here: no small number, and no pointer into anything.
const FIRST_HANDLE: usize = 0x0c00_0000_0000_0000;
/// From handle to handle.
const HANDLE_STEP: usize = 0x10;

/// A new actor.
pub(super) fn next_actor() -> Actor {
    Actor { process: *PROCESS, number: N_ACTORS.fetch_add(1, Ordering::Relaxed) }
}

/// A new handle: none is used twice, so that use of one that was destroyed is seen.
pub(super) fn next_handle() -> usize {
    FIRST_HANDLE + HANDLE_STEP * N_HANDLES.fetch_add(1, Ordering::Relaxed)
}

/// Whether that was ever a handle.
pub(super) fn was_handle(handle: usize) -> bool {
    let offset = handle.wrapping_sub(FIRST_HANDLE);
    offset.is_multiple_of(HANDLE_STEP) && offset / HANDLE_STEP < N_HANDLES.load(Ordering::Relaxed)
}

/// A handle's short name for reports.
pub(super) const fn short(handle: usize) -> usize {
    handle.wrapping_sub(FIRST_HANDLE) / HANDLE_STEP
}

/// How many devices there are.
///
/// # Errors
/// The variable holds no number from 0 to [`MAX_DEVICES`].
pub(super) fn n_devices() -> Result<usize, String> {
    let Some(value) = std::env::var_os(DEVICES_VAR).filter(|value| !value.is_empty()) else { return Ok(N_DEVICES) };
    let parsed = value.to_str().and_then(|text| text.parse().ok()).filter(|&n| n <= MAX_DEVICES);
    parsed.ok_or_else(|| format!("{DEVICES_VAR}={}: must be a number from 0 to {MAX_DEVICES}", value.display()))
}
