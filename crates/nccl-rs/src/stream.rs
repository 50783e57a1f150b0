//! A queue of work on a GPU.

use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use cudarc::driver::CudaStream;
use cudarc::driver::sys::CUstream;

use crate::device::Device;
use crate::error::NcclError;
use crate::event::Event;
use crate::pinned::{Pinned, Pool};

/// `CU_STREAM_NON_BLOCKING`: not ordered with the default stream either.
const NON_BLOCKING: u32 = 1;
/// `CU_STREAM_PER_THREAD`: another queue on every thread.
const PER_THREAD: usize = 2;

/// A queue of work: what is put on it runs in that order. A handle: clones are the same queue.
#[derive(Clone, Debug)]
pub struct Stream {
    queue: Arc<Queue>,
}

#[derive(Debug)]
struct Queue {
    raw: CUstream,
    device: Device,
    /// The owner of `raw`; this crate where there is none.
    owner: Option<Arc<CudaStream>>,
    pinned: Arc<Pool>,
}

impl Queue {
    fn new(raw: CUstream, device: Device, owner: Option<Arc<CudaStream>>) -> Arc<Self> {
        Arc::new(Self { raw, pinned: Pool::new(device.clone()), device, owner })
    }
}

// SAFETY: a stream's handle may be used by any thread, and by several at once: the driver locks. It means the same queue on all of
// them: `Stream::of` refuses the one handle that does not.
unsafe impl Send for Queue {}
// SAFETY: as above.
unsafe impl Sync for Queue {}

impl Stream {
    /// A queue of its own, not ordered with any other.
    ///
    /// # Errors
    /// What the driver says.
    pub fn new(device: &Device) -> Result<Self, NcclError> {
        let driver = device.bind()?;
        let mut raw: CUstream = ptr::null_mut();
        // SAFETY: it writes one handle, which `raw` is.
        driver.check("cuStreamCreate", unsafe { (driver.stream_create)(&raw mut raw, NON_BLOCKING) })?;
        Ok(Self { queue: Queue::new(raw, device.clone(), None) })
    }

    /// The queue of a cudarc stream, as candle computes on.
    ///
    /// # Errors
    /// [`NcclError::Misuse`] for the per-thread default stream: one thread's event says nothing of another's work on it, so that
    /// memory would be let go of while it is used.
    pub fn of(stream: Arc<CudaStream>) -> Result<Self, NcclError> {
        let raw = stream.cu_stream();
        if raw.addr() == PER_THREAD {
            let reason =
                "the per-thread default stream is another queue on every thread; give a stream of `new_stream`";
            return Err(NcclError::Misuse { call: "Stream::of", reason: reason.to_string() });
        }
        Ok(Self { queue: Queue::new(raw, Device::of(stream.context().clone()), Some(stream)) })
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.queue.device
    }

    /// An event that is complete once all that is on the stream now is.
    ///
    /// # Errors
    /// What the driver says.
    pub fn record(&self) -> Result<Event, NcclError> {
        // SAFETY: `self` keeps the stream, which is of that device.
        unsafe { Event::record(self.device(), self.raw()) }
    }

    /// Has what is put on the stream from now on wait for an event. Does not wait itself. The event may be of another device.
    ///
    /// # Errors
    /// What the driver says.
    pub fn wait(&self, event: &Event) -> Result<(), NcclError> {
        let driver = self.device().bind()?;
        // SAFETY: both handles are kept by their owners during the call; the driver keeps what it needs of the event. There are
        // no flags.
        driver.check("cuStreamWaitEvent", unsafe { (driver.stream_wait_event)(self.raw(), event.raw(), 0) })
    }

    /// Waits here until all that is on the stream now is done, for at most that long.
    ///
    /// # Errors
    /// [`NcclError::Deadline`], or what the driver says of the work.
    pub fn settle(&self, limit: Duration) -> Result<(), NcclError> {
        self.record()?.wait(limit)
    }

    pub(crate) fn raw(&self) -> CUstream {
        self.queue.raw
    }

    /// Pinned memory for copies on this stream only.
    pub(crate) fn pinned(&self, n_bytes: usize) -> Result<Pinned, NcclError> {
        self.queue.pinned.take(n_bytes)
    }

    /// Whether both are the same queue.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.raw() == other.raw() && self.device().is(other.device())
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        if self.owner.is_some() {
            return;
        }
        let Ok(driver) = self.device.bind() else { return };
        // SAFETY: this is the last that knows of it. Work that is still on it runs to its end: the driver frees it only then.
        unsafe { (driver.stream_destroy)(self.raw) };
    }
}
