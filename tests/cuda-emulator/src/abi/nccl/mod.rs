//! The C names of NCCL, as nccl.h declares them: arguments checked and made Rust's, a panic made an error.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int, c_void};

mod comm;
mod config;
mod operations;

pub use comm::{
    ncclCommAbort, ncclCommCount, ncclCommCuDevice, ncclCommDestroy, ncclCommFinalize, ncclCommGetAsyncError,
    ncclCommInitRank, ncclCommInitRankConfig, ncclCommSplit, ncclCommUserRank,
};
pub use config::{CONFIG_MAGIC, Config, UNSET};
pub use operations::{
    ncclAllGather, ncclAllReduce, ncclBroadcast, ncclGroupEnd, ncclGroupStart, ncclRecv, ncclReduce, ncclReduceScatter,
    ncclSend,
};

use crate::nccl::kinds::{Code, Refusal};
use crate::nccl::meet::{ID_LEN, Meeting};
use crate::nccl::registry;
use crate::nccl::settings::settings;

/// `ncclUniqueId`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct UniqueId {
    /// What it is made of.
    pub internal: [u8; ID_LEN],
}

/// What a handle of a communicator is in C.
pub type CommHandle = *mut c_void;

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Runs a call: what it refuses is kept for `ncclGetLastError`, a panic is an internal error.
fn answer(call: impl FnOnce() -> Result<Code, Refusal>) -> c_int {
    let guarded = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        // A variable that cannot be read must not pass for one that is not set.
        settings()?;
        call()
    }));
    let result = guarded.unwrap_or_else(|_| {
        Err(Refusal { code: Code::InternalError, text: "the emulator panicked; see what it printed".into() })
    });
    match result {
        Ok(code) => code as c_int,
        Err(refusal) => {
            say(&refusal.text);
            refusal.code as c_int
        }
    }
}

fn say(text: &str) {
    let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
    // A thread that is ending has no last error.
    let _ = LAST.try_with(|last| last.replace(text));
}

/// # Safety
/// `to` is null or may be written.
unsafe fn write<T>(to: *mut T, value: T, name: &str) -> Result<(), Refusal> {
    if to.is_null() {
        return Err(Refusal::argument(format!("{name} is null")));
    }
    // SAFETY: it is not null, so that it may be written, says the caller. `write` does not drop what is there, which C leaves
    // uninitialised.
    unsafe { to.write(value) };
    Ok(())
}

/// `ncclGetVersion`.
///
/// # Safety
/// `version` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclGetVersion(version: *mut c_int) -> c_int {
    answer(|| {
        // SAFETY: the caller says so.
        unsafe { write(version, settings()?.version, "version") }.map(|()| Code::Success)
    })
}

/// `ncclGetErrorString`.
#[unsafe(no_mangle)]
pub extern "C" fn ncclGetErrorString(result: c_int) -> *const c_char {
    Code::of(result).map_or(c"unknown result code", Code::text).as_ptr()
}

/// `ncclGetLastError`: of the communicator's failure, if it has one, else of this thread's last call that was refused.
///
/// # Safety
/// What it gives is good until this thread's next call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclGetLastError(comm: CommHandle) -> *const c_char {
    // A panic must not go on into C; without what the communicator says there is the thread's own.
    let of_comm = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let comm = (!comm.is_null()).then(|| registry::get(comm as usize).ok()).flatten()?;
        comm.lock().failure.clone()
    }));
    if let Ok(Some(failure)) = of_comm {
        say(&failure.text);
    }
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// `ncclGetUniqueId`.
///
/// # Safety
/// `id` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclGetUniqueId(id: *mut UniqueId) -> c_int {
    answer(|| {
        let meeting = Meeting::open().map_err(|error| Refusal::system(format!("cannot open a socket: {error}")))?;
        // SAFETY: the caller says so.
        unsafe { write(id, UniqueId { internal: meeting.id() }, "the id") }?;
        meeting.keep();
        Ok(Code::Success)
    })
}
