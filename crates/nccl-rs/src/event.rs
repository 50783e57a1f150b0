//! A point in a stream's work.

use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use cudarc::driver::sys::{CUevent, CUstream};

use crate::device::Device;
use crate::driver::{NOT_READY, SUCCESS};
use crate::error::NcclError;
use crate::poll::Wait;

/// `CU_EVENT_DISABLE_TIMING`: such an event is the cheapest.
const DISABLE_TIMING: u32 = 2;

/// A point in a stream's work that other streams, or the host, can wait for. A handle: clones are the same point.
#[derive(Clone, Debug)]
pub struct Event {
    recorded: Arc<Recorded>,
}

/// An event that is recorded once.
#[derive(Debug)]
struct Recorded {
    raw: CUevent,
    device: Device,
}

// SAFETY: an event's handle may be used by any thread, and by several at once: the driver locks.
unsafe impl Send for Recorded {}
// SAFETY: as above.
unsafe impl Sync for Recorded {}

impl Event {
    /// The point after what is on a stream now.
    ///
    /// # Safety
    /// `stream` is a stream of `device` that exists.
    pub(crate) unsafe fn record(device: &Device, stream: CUstream) -> Result<Self, NcclError> {
        let driver = device.bind()?;
        let mut raw: CUevent = ptr::null_mut();
        // SAFETY: it writes one handle, which `raw` is.
        driver.check("cuEventCreate", unsafe { (driver.event_create)(&raw mut raw, DISABLE_TIMING) })?;
        let recorded = Recorded { raw, device: device.clone() };
        // SAFETY: the event was just made, in the context of the stream, which exists, says the caller.
        driver.check("cuEventRecord", unsafe { (driver.event_record)(recorded.raw, stream) })?;
        Ok(Self { recorded: Arc::new(recorded) })
    }

    /// Whether the work before it is done. Does not wait.
    ///
    /// # Errors
    /// What the driver says of the work.
    pub fn is_complete(&self) -> Result<bool, NcclError> {
        let driver = self.recorded.device.bind()?;
        // SAFETY: `self` keeps the event.
        match unsafe { (driver.event_query)(self.recorded.raw) } {
            SUCCESS => Ok(true),
            NOT_READY => Ok(false),
            code => Err(driver.error("cuEventQuery", code)),
        }
    }

    /// Waits here until the work before it is done, for at most that long.
    ///
    /// # Errors
    /// [`NcclError::Deadline`], or what the driver says of the work.
    pub fn wait(&self, limit: Duration) -> Result<(), NcclError> {
        Wait::new("cuEventQuery", limit).until(|| Ok(self.is_complete()?.then_some(())))
    }

    pub(crate) fn raw(&self) -> CUevent {
        self.recorded.raw
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        let Ok(driver) = self.device.bind() else { return };
        // SAFETY: this is the last that knows of it. Streams that wait for it are not disturbed: the driver keeps what it needs
        // until the event is complete.
        unsafe { (driver.event_destroy)(self.raw) };
    }
}
