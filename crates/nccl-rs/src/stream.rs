//! A queue of work on a GPU.

use std::sync::Arc;
use std::time::Duration;

use cudarc::driver::CudaStream;

use crate::device::Device;
use crate::error::NcclError;
use crate::event::Event;

/// A queue of work: what is put on it runs in that order. A handle: clones are the same queue.
#[derive(Clone, Debug)]
pub struct Stream {
    // the raw stream with what owns it: this crate, or a cudarc stream
}

impl Stream {
    /// A queue of its own, not ordered with any other.
    ///
    /// # Errors
    /// What the driver says.
    pub fn new(device: &Device) -> Result<Self, NcclError> {
        todo!("{device:?}")
    }

    /// The queue of a cudarc stream, as candle computes on.
    pub fn of(stream: Arc<CudaStream>) -> Self {
        todo!("{stream:?}")
    }

    /// The device.
    pub fn device(&self) -> &Device {
        todo!()
    }

    /// An event that is complete once all that is on the stream now is.
    ///
    /// # Errors
    /// What the driver says.
    pub fn record(&self) -> Result<Event, NcclError> {
        todo!()
    }

    /// Has what is put on the stream from now on wait for an event. Does not wait itself.
    ///
    /// # Errors
    /// What the driver says.
    pub fn wait(&self, event: &Event) -> Result<(), NcclError> {
        todo!("{event:?}")
    }

    /// Waits here until all that is on the stream now is done, for at most that long.
    ///
    /// # Errors
    /// [`NcclError::Deadline`], or what the driver says of the work.
    pub fn settle(&self, limit: Duration) -> Result<(), NcclError> {
        todo!("{limit:?}")
    }
}
