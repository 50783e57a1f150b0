//! Host memory that a GPU can copy to and from by itself.
//!
//! A copy to or from ordinary memory may block until the stream gets there, without a deadline; one to or from this does not.
//! It is kept for the next copy rather than freed: freeing it may wait for all that the GPU is at.

use std::ffi::c_void;
use std::ptr::{self, NonNull};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::device::Device;
use crate::driver::Driver;
use crate::error::NcclError;

/// The least that is allocated, in bytes.
const SMALLEST: usize = 4096;
/// `CU_MEMHOSTALLOC_PORTABLE`: pinned for all contexts of the process.
const PORTABLE: u32 = 1;

/// The pinned memory of one stream that is not in use. Of one stream, so that what uses it next is ordered after what used it
/// before, whichever threads these are of.
#[derive(Debug)]
pub(crate) struct Pool {
    device: Device,
    idle: Mutex<Vec<Block>>,
}

#[derive(Debug)]
struct Block {
    address: NonNull<u8>,
    capacity: usize,
}

// SAFETY: a block is memory of the process that only its owner knows of; any thread may use it and free it.
unsafe impl Send for Block {}

impl Pool {
    pub(crate) fn new(device: Device) -> Arc<Self> {
        Arc::new(Self { device, idle: Mutex::default() })
    }

    /// That many bytes, all of them set.
    pub(crate) fn take(self: &Arc<Self>, n_bytes: usize) -> Result<Pinned, NcclError> {
        let capacity = n_bytes.max(SMALLEST).checked_next_power_of_two().ok_or_else(|| NcclError::Misuse {
            call: "cuMemHostAlloc",
            reason: format!("{n_bytes} bytes are more than there can be"),
        })?;
        let mut idle = lock(&self.idle);
        let fit = idle.iter().position(|block| block.capacity == capacity);
        let block = fit.map(|index| idle.swap_remove(index));
        drop(idle);
        let block = match block {
            Some(block) => block,
            None => Block::new(self.device.bind()?, capacity)?,
        };
        Ok(Pinned { pool: self.clone(), block: Some(block), n_bytes })
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let Ok(driver) = self.device.bind() else { return };
        for block in lock(&self.idle).drain(..) {
            // SAFETY: it came from cuMemHostAlloc, no one else knows of it, and what copied to or from it is done: only then is
            // it given back. An error leaves it allocated.
            unsafe { (driver.mem_free_host)(block.address.as_ptr().cast()) };
        }
    }
}

impl Block {
    fn new(driver: &Driver, capacity: usize) -> Result<Self, NcclError> {
        let mut address: *mut c_void = ptr::null_mut();
        // SAFETY: it writes one pointer, which `address` is. Without a current context it fails.
        let code = unsafe { (driver.mem_host_alloc)(&raw mut address, capacity, PORTABLE) };
        driver.check("cuMemHostAlloc", code)?;
        let address = NonNull::new(address.cast::<u8>()).ok_or_else(|| NcclError::Misuse {
            call: "cuMemHostAlloc",
            reason: "the driver gave no memory and no error".to_string(),
        })?;
        // SAFETY: `capacity` bytes were allocated there. They are set so that they may be read as bytes.
        unsafe { ptr::write_bytes(address.as_ptr(), 0, capacity) };
        Ok(Self { address, capacity })
    }
}

/// Pinned memory in use. It goes back to its pool when dropped, which must not be before a copy to or from it is done.
#[derive(Debug)]
pub(crate) struct Pinned {
    pool: Arc<Pool>,
    block: Option<Block>,
    n_bytes: usize,
}

impl Pinned {
    /// Where it begins.
    pub(crate) fn address(&self) -> *mut u8 {
        self.block.as_ref().map_or(ptr::null_mut(), |block| block.address.as_ptr())
    }

    /// Its bytes.
    ///
    /// # Safety
    /// No copy to it is under way.
    pub(crate) unsafe fn bytes(&self) -> &[u8] {
        match &self.block {
            // SAFETY: the block has at least `n_bytes` bytes, all set when it was made, and nothing writes to them now: no copy,
            // says the caller, and nothing of the host without `&mut`.
            Some(block) => unsafe { std::slice::from_raw_parts(block.address.as_ptr(), self.n_bytes) },
            None => &[],
        }
    }

    /// Sets its bytes; `from` is as long as was asked for.
    ///
    /// # Safety
    /// No copy to or from it is under way.
    pub(crate) unsafe fn fill(&mut self, from: &[u8]) {
        let n_bytes = from.len().min(self.n_bytes);
        // SAFETY: the block has at least that many bytes, it is not part of `from`, for no one else knows of it, and nothing
        // reads it, says the caller.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), self.address(), n_bytes) };
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if let Some(block) = self.block.take() {
            lock(&self.pool.idle).push(block);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
