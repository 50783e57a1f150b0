//! Communicators: made, asked, divided, left, aborted.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use super::config::{Asked, read_config};
use super::{CommHandle, UniqueId, answer, write};
use crate::driver;
use crate::nccl::comm::{Comm, Place, Request};
use crate::nccl::kinds::{Code, Refusal};
use crate::nccl::meet::MOST_RANKS;
use crate::nccl::{group, leave, registry, split};

/// `ncclCommInitRank`: as `ncclCommInitRankConfig` without a configuration.
///
/// # Safety
/// `comm` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommInitRank(comm: *mut CommHandle, n_ranks: c_int, id: UniqueId, rank: c_int) -> c_int {
    answer(|| {
        // SAFETY: the caller says so.
        unsafe { init(comm, n_ranks, &id, rank, request(None)?) }
    })
}

/// `ncclCommInitRankConfig`.
///
/// # Safety
/// `comm` is null or may be written; `config` is null or an `ncclConfig_t`, as long as it says, with texts that end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommInitRankConfig(
    comm: *mut CommHandle,
    n_ranks: c_int,
    id: UniqueId,
    rank: c_int,
    config: *mut c_void,
) -> c_int {
    answer(|| {
        // SAFETY: the caller says so.
        let config = unsafe { read_config(config) }?;
        // SAFETY: the caller says so.
        unsafe { init(comm, n_ranks, &id, rank, request(config)?) }
    })
}

/// What is asked for, with the caller's device.
fn request(asked: Option<Asked>) -> Result<Request, Refusal> {
    let cuda = |text: String| Refusal { code: Code::CudaError, text };
    let context = driver::current_context().ok_or_else(|| cuda("no context is current on this thread".into()))?;
    let device = driver::device_of_context(context).map_err(|error| cuda(error.to_string()))?;
    let Asked { blocking, name } = asked.unwrap_or(Asked { blocking: true, name: None });
    Ok(Request { blocking, device: device as u32, name })
}

/// # Safety
/// `comm` is null or may be written.
unsafe fn init(
    comm: *mut CommHandle,
    n_ranks: c_int,
    id: &UniqueId,
    rank: c_int,
    request: Request,
) -> Result<Code, Refusal> {
    if comm.is_null() {
        return Err(Refusal::argument("comm is null"));
    }
    let place = match (usize::try_from(rank), usize::try_from(n_ranks)) {
        (Ok(rank), Ok(n_ranks)) if rank < n_ranks && n_ranks <= MOST_RANKS => Place { rank, n_ranks },
        _ => return Err(Refusal::argument(format!("rank {rank} of {n_ranks}"))),
    };
    let made = Comm::new(request);
    made.begin(id.internal, place)?;
    // SAFETY: the caller says so.
    unsafe { write(comm, registry::add(Arc::clone(&made)) as CommHandle, "comm") }?;
    group::made(&made)
}

/// `ncclCommSplit`. The new communicator can be used once both are no longer in progress.
///
/// # Safety
/// `new` is null or may be written; `config` as for `ncclCommInitRankConfig`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommSplit(
    comm: CommHandle,
    color: c_int,
    key: c_int,
    new: *mut CommHandle,
    config: *mut c_void,
) -> c_int {
    answer(|| {
        let parent = registry::get(comm as usize)?;
        // SAFETY: the caller says so.
        let asked = unsafe { read_config(config) }?;
        let inherited = parent.request.clone();
        let request =
            asked.map_or(inherited.clone(), |Asked { blocking, name }| Request { blocking, name, ..inherited });
        if color < -1 {
            return Err(Refusal::argument(format!("color {color}: colors begin at 0, and -1 is none")));
        }
        // SAFETY: the caller says so.
        unsafe { write(new, std::ptr::null_mut(), "the new communicator") }?;
        let child = split::split(&parent, (color >= 0).then_some(color), key, request)?;
        if let Some(child) = &child {
            // SAFETY: the caller says so.
            unsafe { write(new, registry::add(Arc::clone(child)) as CommHandle, "the new communicator") }?;
        }
        if !parent.request.blocking {
            return Ok(Code::InProgress);
        }
        parent.settle()?;
        child.map_or(Ok(Code::Success), |child| group::made(&child))
    })
}

/// `ncclCommGetAsyncError`.
///
/// # Safety
/// `error` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommGetAsyncError(comm: CommHandle, error: *mut c_int) -> c_int {
    answer(|| {
        let code = group::status(&*registry::get(comm as usize)?);
        // SAFETY: the caller says so.
        unsafe { write(error, code as c_int, "the error") }.map(|()| Code::Success)
    })
}

/// `ncclCommFinalize`.
#[unsafe(no_mangle)]
pub extern "C" fn ncclCommFinalize(comm: CommHandle) -> c_int {
    answer(|| {
        let comm = registry::get(comm as usize)?;
        leave::finalize(&comm)?;
        if comm.request.blocking { comm.settle().map(|()| Code::Success) } else { Ok(Code::InProgress) }
    })
}

/// `ncclCommDestroy`.
#[unsafe(no_mangle)]
pub extern "C" fn ncclCommDestroy(comm: CommHandle) -> c_int {
    answer(|| leave::destroy(&registry::remove(comm as usize)?).map(|()| Code::Success))
}

/// `ncclCommAbort`: from any thread.
#[unsafe(no_mangle)]
pub extern "C" fn ncclCommAbort(comm: CommHandle) -> c_int {
    answer(|| leave::abort(&*registry::remove(comm as usize)?).map(|()| Code::Success))
}

/// # Safety
/// `to` is null or may be written.
unsafe fn ask(comm: CommHandle, to: *mut c_int, what: impl FnOnce(&Comm) -> usize) -> c_int {
    answer(|| {
        let comm = registry::get(comm as usize)?;
        comm.ready()?;
        // SAFETY: the caller says so.
        unsafe { write(to, what(&comm) as c_int, "where to put the answer") }.map(|()| Code::Success)
    })
}

/// `ncclCommCount`.
///
/// # Safety
/// `count` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommCount(comm: CommHandle, count: *mut c_int) -> c_int {
    // SAFETY: the caller says so.
    unsafe { ask(comm, count, |comm| comm.place().n_ranks) }
}

/// `ncclCommUserRank`.
///
/// # Safety
/// `rank` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommUserRank(comm: CommHandle, rank: *mut c_int) -> c_int {
    // SAFETY: the caller says so.
    unsafe { ask(comm, rank, |comm| comm.place().rank) }
}

/// `ncclCommCuDevice`.
///
/// # Safety
/// `device` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncclCommCuDevice(comm: CommHandle, device: *mut c_int) -> c_int {
    // SAFETY: the caller says so.
    unsafe { ask(comm, device, |comm| comm.request.device as usize) }
}
