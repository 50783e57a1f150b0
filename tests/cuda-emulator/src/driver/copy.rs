//! Copies and fills, as to what they wait for:
//!
//! - from pageable memory of the host: the source is taken before the call returns, the copy itself is in the stream's order.
//!   The call without `Async` waits before that for what is on the default stream. Neither means that the copy is done;
//! - to pageable memory: the call returns once the copy is done;
//! - from and to pinned memory: with `Async` the call returns at once, and the memory must stay as it is; else once it is done;
//! - between buffers of the device, and fills: in the stream's order, whether `Async` or not.
//!
//! Calls without `Async` are on the default stream.

use std::sync::{Arc, Mutex, PoisonError};

use super::code::{Code, Error};
use super::mark::Mark;
use super::queue::{self, Order};
use super::state::state;
use super::wait::{synchronize_stream, wait_here};
use crate::job::{Access, Kind, Work};

/// Whether a range of host addresses is pinned memory.
pub fn is_pinned(address: u64, n_bytes: usize) -> bool {
    state().memory.is_pinned(address, n_bytes)
}

/// The default stream.
const DEFAULT: usize = 0;

/// `cuMemcpyHtoD` from pageable memory, of which `bytes` is a copy.
///
/// # Errors
/// Memory that is not there, a race, a context that failed.
pub fn copy_in(what: &str, address: u64, bytes: Vec<u8>) -> Result<(), Error> {
    synchronize_stream(DEFAULT)?;
    copy_in_async(what, address, bytes, DEFAULT)
}

/// `cuMemcpyHtoDAsync` from pageable memory, of which `bytes` is a copy.
///
/// # Errors
/// As [`copy_in`], and an unknown stream.
pub fn copy_in_async(what: &str, address: u64, bytes: Vec<u8>, stream: usize) -> Result<(), Error> {
    let to = Access { address, n_bytes: bytes.len(), kind: Kind::Write };
    let run = Box::new(move |work: &mut dyn Work| write(work, address, &bytes));
    queue::put(stream, Order::new(what, vec![to], run)).map(drop)
}

/// `cuMemcpyDtoH` and `cuMemcpyDtoHAsync` to pageable memory: what is to be written there.
///
/// # Errors
/// As [`copy_in_async`], and what fails meanwhile.
pub fn copy_out(what: &str, address: u64, n_bytes: usize, stream: usize) -> Result<Vec<u8>, Error> {
    let from = Access { address, n_bytes, kind: Kind::Read };
    let result = Arc::new(Mutex::new(None));
    let slot = Arc::clone(&result);
    let run = Box::new(move |work: &mut dyn Work| {
        let bytes = read(work, address, n_bytes)?;
        *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(bytes);
        Ok(())
    });
    let mark = queue::put(stream, Order::new(what, vec![from], run))?;
    finish(&mark, stream)?;
    let bytes = result.lock().unwrap_or_else(PoisonError::into_inner).take();
    bytes.ok_or_else(|| Error::new(Code::Unknown, "the copy was not made"))
}

/// Any copy between buffers of a device and pinned memory.
///
/// # Errors
/// As [`copy_in_async`].
pub fn copy_async(what: &str, to: u64, from: u64, n_bytes: usize, stream: usize) -> Result<(), Error> {
    between(what, to, from, n_bytes, stream).map(drop)
}

/// The same, waiting until it is done.
///
/// # Errors
/// As [`copy_in_async`], and what fails meanwhile.
pub fn copy(what: &str, to: u64, from: u64, n_bytes: usize) -> Result<(), Error> {
    finish(&between(what, to, from, n_bytes, DEFAULT)?, DEFAULT)
}

/// `cuMemsetD8` and `cuMemsetD32`, `Async` or not: the pattern, `n` times.
///
/// # Errors
/// As [`copy_in_async`].
pub fn fill(what: &str, address: u64, pattern: &[u8], n: usize, stream: usize) -> Result<(), Error> {
    let too_many = || Error::new(Code::InvalidValue, format!("{n} times {} bytes", pattern.len()));
    let n_bytes = n.checked_mul(pattern.len()).ok_or_else(too_many)?;
    let pattern = pattern.to_vec();
    let to = Access { address, n_bytes, kind: Kind::Write };
    let run = Box::new(move |work: &mut dyn Work| write(work, address, &pattern.repeat(n)));
    queue::put(stream, Order::new(what, vec![to], run)).map(drop)
}

fn between(what: &str, to: u64, from: u64, n_bytes: usize, stream: usize) -> Result<Arc<Mark>, Error> {
    let accesses =
        vec![Access { address: from, n_bytes, kind: Kind::Read }, Access { address: to, n_bytes, kind: Kind::Write }];
    let run = Box::new(move |work: &mut dyn Work| {
        let bytes = read(work, from, n_bytes)?;
        write(work, to, &bytes)
    });
    queue::put(stream, Order::new(what, accesses, run))
}

/// Of no bytes nothing is stated.
fn read(work: &dyn Work, address: u64, n_bytes: usize) -> Result<Vec<u8>, String> {
    if n_bytes == 0 { Ok(Vec::new()) } else { work.read(address, n_bytes) }
}

fn write(work: &mut dyn Work, address: u64, bytes: &[u8]) -> Result<(), String> {
    if bytes.is_empty() { Ok(()) } else { work.write(address, bytes) }
}

fn finish(mark: &Arc<Mark>, stream: usize) -> Result<(), Error> {
    let context = {
        let mut state = state();
        let stream = queue::resolve(&mut state, stream)?;
        state.streams.get(&stream).map(|found| Arc::clone(&found.context))
    };
    let context = context.ok_or_else(|| queue::bad_handle("stream", stream))?;
    wait_here(std::iter::once(mark), &context)
}
