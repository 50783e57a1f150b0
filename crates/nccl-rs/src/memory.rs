//! Memory on a GPU.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use bytemuck::AnyBitPattern;
use cudarc::driver::{CudaSlice, DevicePtr};

use crate::error::NcclError;
use crate::parked::{self, Until};
use crate::stream::Stream;

/// Memory on a GPU that operations may use. They keep it alive until they are done, and may write any bits to it.
///
/// # Safety
/// From `address()` on, `n_bytes()` bytes are allocated on the device for as long as the value lives, and stay at that address.
/// When the value is dropped, the memory may be used anew only for work that the stream it was allocated on, or the host, does
/// after that. Any bits are a value of whatever it is read as. `freed_on()` names a stream only if the memory is used anew in
/// the order of that stream alone.
pub unsafe trait DeviceMemory: Any + Debug + Send + Sync {
    /// Where it begins, as the device knows it.
    fn address(&self) -> u64;

    /// How long it is.
    fn n_bytes(&self) -> usize;

    /// The stream in whose order it is freed, where that is known.
    fn freed_on(&self) -> Option<Stream> {
        None
    }
}

// SAFETY: a slice owns its allocation, which does not move, until it is dropped; whatever takes it out of the slice consumes the
// slice. cudarc frees it in the order of the slice's stream, or once that stream is idle; the per-thread default stream, whose order
// depends on the thread that drops the slice, is not named. Any bits are a `T`.
unsafe impl<T: AnyBitPattern + Debug + Send + Sync> DeviceMemory for CudaSlice<T> {
    fn address(&self) -> u64 {
        let (address, guard) = self.device_ptr(self.stream());
        // Dropped it would have cudarc note a reader, on the slice's own stream, and forget the one on another stream that it
        // knew of: the slice would be freed while that one reads. It owns nothing.
        std::mem::forget(guard);
        address
    }

    fn n_bytes(&self) -> usize {
        self.num_bytes()
    }

    fn freed_on(&self) -> Option<Stream> {
        Stream::of(self.stream().clone()).ok()
    }
}

/// Memory that an operation is to use: all of it, as elements of a type. Its length must be that of the operation.
pub type Shared = Arc<dyn DeviceMemory>;

/// Bytes on a GPU, allocated and freed in the order of a stream where the GPU has memory pools. Where it has none they are
/// allocated at once, and freed some time after the stream has come to where they were dropped.
#[derive(Debug)]
pub struct DeviceBytes {
    allocation: Allocation,
    stream: Stream,
}

#[derive(Debug)]
struct Allocation {
    address: u64,
    n_bytes: usize,
}

impl DeviceBytes {
    /// Not initialised. None at all where `n_bytes` is 0.
    ///
    /// # Errors
    /// What the driver says.
    pub fn new(stream: &Stream, n_bytes: usize) -> Result<Self, NcclError> {
        let driver = stream.device().bind()?;
        let mut address = 0;
        if n_bytes > 0 && stream.device().context().has_async_alloc() {
            // SAFETY: it writes one address, which `address` is; `stream` keeps the stream.
            let code = unsafe { (driver.mem_alloc_async)(&raw mut address, n_bytes, stream.raw()) };
            driver.check("cuMemAllocAsync", code)?;
        } else if n_bytes > 0 {
            // SAFETY: it writes one address, which `address` is.
            driver.check("cuMemAlloc", unsafe { (driver.mem_alloc)(&raw mut address, n_bytes) })?;
        }
        Ok(Self { allocation: Allocation { address, n_bytes }, stream: stream.clone() })
    }

    /// A copy of bytes of the host: on the stream, and `bytes` is read before this returns.
    ///
    /// # Errors
    /// What the driver says.
    pub fn from_host(stream: &Stream, bytes: &[u8]) -> Result<Self, NcclError> {
        let copy = Self::new(stream, bytes.len())?;
        if bytes.is_empty() {
            return Ok(copy);
        }
        // Gives back what copies that are done have used.
        parked::sweep();
        let driver = stream.device().bind()?;
        let mut pinned = stream.pinned(bytes.len())?;
        // SAFETY: nothing copies to or from it yet.
        unsafe { pinned.fill(bytes) };
        // SAFETY: both are that long. The source is kept until the copy is done, below, and the destination is freed in the
        // order of the same stream.
        let code = unsafe {
            (driver.memcpy_to_device)(copy.allocation.address, pinned.address().cast(), bytes.len(), stream.raw())
        };
        // Also on an error, which may be one of earlier work: then nobody knows whether the copy is queued.
        keep_for_work_of(stream, pinned);
        driver.check("cuMemcpyHtoDAsync", code)?;
        Ok(copy)
    }
}

// SAFETY: allocated from `new` until `drop`, in one place. Freed in the order of `stream`; bytes may have any bits.
unsafe impl DeviceMemory for DeviceBytes {
    fn address(&self) -> u64 {
        self.allocation.address
    }

    fn n_bytes(&self) -> usize {
        self.allocation.n_bytes
    }

    fn freed_on(&self) -> Option<Stream> {
        Some(self.stream.clone())
    }
}

impl Drop for DeviceBytes {
    fn drop(&mut self) {
        if self.allocation.n_bytes == 0 {
            return;
        }
        let Ok(driver) = self.stream.device().bind() else { return };
        if self.stream.device().context().has_async_alloc() {
            // SAFETY: it came from cuMemAllocAsync, and this was its only owner. An error leaves it allocated.
            unsafe { (driver.mem_free_async)(self.allocation.address, self.stream.raw()) };
            return;
        }
        let Allocation { address, n_bytes } = self.allocation;
        let unpooled = Unpooled { allocation: Allocation { address, n_bytes }, stream: self.stream.clone() };
        keep_for_work_of(&self.stream, unpooled);
        parked::sweep();
    }
}

/// Memory of a GPU without memory pools, after its owner is gone.
struct Unpooled {
    allocation: Allocation,
    stream: Stream,
}

impl Drop for Unpooled {
    fn drop(&mut self) {
        let Ok(driver) = self.stream.device().bind() else { return };
        // SAFETY: it came from cuMemAlloc, its owner is gone, and what its stream had to do with it is done.
        unsafe { (driver.mem_free)(self.allocation.address) };
    }
}

/// Keeps something until what is on the stream now is done.
fn keep_for_work_of(stream: &Stream, kept: impl Any + Send) {
    let until = match stream.record() {
        Ok(event) => Until::Complete(event),
        // Later is as good: then there is only more before the event.
        Err(_) => {
            let stream = stream.clone();
            Until::Then(Box::new(move || stream.record().map(Some)))
        }
    };
    parked::keep(until, kept);
}

/// Copies any device memory to the host after what is on the stream now; waits for that, at most for `limit`.
fn to_host(memory: &Arc<dyn DeviceMemory>, stream: &Stream, limit: Duration) -> Result<Vec<u8>, NcclError> {
    let n_bytes = memory.n_bytes();
    if n_bytes == 0 {
        return Ok(Vec::new());
    }
    parked::sweep();
    let driver = stream.device().bind()?;
    let pinned = stream.pinned(n_bytes)?;
    // SAFETY: both are that long, and both are kept until the copy is done: here, or with what is parked.
    let code = unsafe { (driver.memcpy_to_host)(pinned.address().cast(), memory.address(), n_bytes, stream.raw()) };
    match driver.check("cuMemcpyDtoHAsync", code).and_then(|()| stream.settle(limit)) {
        // SAFETY: the one copy to it is done.
        Ok(()) => Ok(unsafe { pinned.bytes() }.to_vec()),
        // Whatever it is: the copy may be queued, and not done.
        Err(error) => {
            keep_for_work_of(stream, (pinned, memory.clone()));
            Err(error)
        }
    }
}

impl dyn DeviceMemory {
    /// Its bytes, after what is on the stream now; waits for that, for at most `limit`. When the deadline passes, the copy stays
    /// on the stream, and the memory is kept until it is done.
    ///
    /// # Errors
    /// [`NcclError::Deadline`], or what the driver says.
    pub fn to_host(self: &Arc<Self>, stream: &Stream, limit: Duration) -> Result<Vec<u8>, NcclError> {
        to_host(self, stream, limit)
    }
}
