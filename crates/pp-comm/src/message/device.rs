//! Where the memory of messages that arrive on a device comes from.

use std::error::Error;
use std::sync::Arc;

use nccl_rs::{DeviceBytes, DeviceMemory, Stream};

use super::boundary::Boundary;

/// Gives memory on a device for messages that are to be received: implemented by whoever computes there, so that what arrives is
/// a tensor of theirs without a copy.
///
/// The memory must be good for use on any stream of the device once what is on the compute stream at the time of the call is
/// done: an endpoint records an event there after this returns, and has its own stream wait for it before the message is
/// written. Memory that is allocated and freed in the order of the compute stream fulfils that.
pub trait DeviceAllocator {
    /// Memory of `boundary.n_bytes()` bytes exactly. What is in it does not matter: all of it will be written.
    ///
    /// # Errors
    /// Why there is none.
    fn allocate(&mut self, boundary: &Boundary) -> Result<Arc<dyn DeviceMemory>, Box<dyn Error + Send + Sync>>;
}

/// Memory from the device's own pool, allocated and freed in the order of a stream: that of the computations.
#[derive(Clone, Debug)]
pub struct StreamAllocator {
    stream: Stream,
}

impl StreamAllocator {
    /// For what computes on that stream.
    pub const fn new(stream: Stream) -> Self {
        Self { stream }
    }
}

impl DeviceAllocator for StreamAllocator {
    fn allocate(&mut self, boundary: &Boundary) -> Result<Arc<dyn DeviceMemory>, Box<dyn Error + Send + Sync>> {
        Ok(Arc::new(DeviceBytes::new(&self.stream, boundary.n_bytes())?))
    }
}
