//! The bridge from C: one guard against panics, and pointers checked before they are used.

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::driver::{Code, Error};

/// Success, as C has it.
pub(super) const SUCCESS: u32 = 0;

/// Runs a call, and gives the code for C. A panic of the emulator is an unknown error.
pub(super) fn guard(call: impl FnOnce() -> Result<(), Error>) -> u32 {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => SUCCESS,
        Ok(Err(error)) => error.code as u32,
        Err(_) => Code::Unknown as u32,
    }
}

/// Writes a result to where the caller wants it.
///
/// # Safety
/// `to` is null or valid for a write of `T`.
///
/// # Errors
/// It is null.
pub(super) unsafe fn give<T>(to: *mut T, value: T) -> Result<(), Error> {
    if to.is_null() {
        return Err(Error::new(Code::InvalidValue, "a null pointer for a result"));
    }
    // SAFETY: it is not null, so the caller promises that it may be written. `write` does not drop what is there, which C
    // leaves uninitialised.
    unsafe { to.write(value) };
    Ok(())
}

/// A copy of a caller's bytes.
///
/// # Safety
/// `from` is null or valid for reads of `n_bytes`.
///
/// # Errors
/// It is null, though there should be bytes.
pub(super) unsafe fn take(from: *const c_void, n_bytes: usize) -> Result<Vec<u8>, Error> {
    if n_bytes == 0 {
        return Ok(Vec::new());
    }
    if from.is_null() {
        return Err(Error::new(Code::InvalidValue, "a null pointer for a source"));
    }
    let mut bytes = vec![0_u8; n_bytes];
    // SAFETY: the caller promises that the source may be read; the destination was made here with just that length, so the two
    // do not overlap. Copying raw makes no reference to memory that may hold padding.
    unsafe { std::ptr::copy_nonoverlapping(from.cast(), bytes.as_mut_ptr(), n_bytes) };
    Ok(bytes)
}

/// Copies bytes to where the caller wants them.
///
/// # Safety
/// `to` is null or valid for writes of as many bytes.
///
/// # Errors
/// It is null, though there are bytes.
pub(super) unsafe fn give_bytes(to: *mut c_void, bytes: &[u8]) -> Result<(), Error> {
    if to.is_null() && !bytes.is_empty() {
        return Err(Error::new(Code::InvalidValue, "a null pointer for a destination"));
    }
    if !bytes.is_empty() {
        // SAFETY: it is not null, so the caller promises that it may be written; `bytes` is the emulator's own copy, which no
        // pointer of the caller's overlaps.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.cast(), bytes.len()) };
    }
    Ok(())
}

/// A handle for C.
pub(super) fn as_pointer(handle: usize) -> *mut c_void {
    std::ptr::without_provenance_mut(handle)
}
