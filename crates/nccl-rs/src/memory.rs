//! Memory on a GPU.

use std::any::Any;
use std::fmt::Debug;
use std::time::Duration;

use cudarc::driver::CudaSlice;

use crate::error::NcclError;
use crate::stream::Stream;

/// Memory on a GPU that operations may use. They keep it alive until they are done.
///
/// # Safety
/// From `address()` on, `n_bytes()` bytes are allocated on the device for as long as the value lives, and stay at that address.
/// When the value is dropped, the memory may be used anew only for work that the stream it was allocated on, or the host, does
/// after that.
pub unsafe trait DeviceMemory: Any + Debug + Send + Sync {
    /// Where it begins, as the device knows it.
    fn address(&self) -> u64;
    /// How long it is.
    fn n_bytes(&self) -> usize;
}

// SAFETY: to be written
unsafe impl<T: Debug + Send + Sync + 'static> DeviceMemory for CudaSlice<T> {
    fn address(&self) -> u64 {
        todo!()
    }

    fn n_bytes(&self) -> usize {
        self.num_bytes()
    }
}

/// Bytes on a GPU, allocated and freed in the order of a stream.
#[derive(Debug)]
pub struct DeviceBytes {}

impl DeviceBytes {
    /// Not initialised.
    ///
    /// # Errors
    /// What the driver says.
    pub fn new(stream: &Stream, n_bytes: usize) -> Result<Self, NcclError> {
        todo!("{stream:?} {n_bytes}")
    }

    /// A copy of bytes of the host: on the stream, and `bytes` is read before this returns.
    ///
    /// # Errors
    /// What the driver says.
    pub fn from_host(stream: &Stream, bytes: &[u8]) -> Result<Self, NcclError> {
        todo!("{stream:?} {bytes:?}")
    }
}

/// Copies any device memory to the host after what is on the stream now; waits for that, at most for `limit`.
///
/// # Errors
/// [`NcclError::Deadline`], or what the driver says.
pub(crate) fn to_host(memory: &dyn DeviceMemory, stream: &Stream, limit: Duration) -> Result<Vec<u8>, NcclError> {
    todo!("{memory:?} {stream:?} {limit:?}")
}

impl dyn DeviceMemory {
    /// Its bytes, after what is on the stream now; waits for that, for at most `limit`.
    ///
    /// # Errors
    /// [`NcclError::Deadline`], or what the driver says.
    pub fn to_host(&self, stream: &Stream, limit: Duration) -> Result<Vec<u8>, NcclError> {
        to_host(self, stream, limit)
    }
}

// SAFETY: to be written
unsafe impl DeviceMemory for DeviceBytes {
    fn address(&self) -> u64 {
        todo!()
    }

    fn n_bytes(&self) -> usize {
        todo!()
    }
}
