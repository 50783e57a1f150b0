//! A communicator in the making.

use std::ffi::CString;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use cudarc::nccl::sys::{ncclComm, ncclComm_t, ncclConfig_t};

use crate::config::RawConfig;
use crate::device::Device;
use crate::ending::Ending;
use crate::error::NcclError;
use crate::library::Nccl;
use crate::poll::Wait;
use crate::state::{ABORT_WAIT, RawComm};

/// A communicator that NCCL is making, in the background: where NCCL puts its handle, and what NCCL may read meanwhile.
pub(crate) struct Making {
    nccl: &'static Nccl,
    device: Device,
    place: Option<Box<Place>>,
}

struct Place {
    comm: AtomicPtr<ncclComm>,
    config: RawConfig,
}

impl Making {
    pub(crate) fn new(nccl: &'static Nccl, device: &Device, config: RawConfig) -> Self {
        Self { nccl, device: device.clone(), place: Some(Box::new(Place { comm: AtomicPtr::default(), config })) }
    }

    /// What NCCL's calls take. Good until [`Making::finish`].
    pub(crate) fn arguments(&mut self) -> (*mut ncclComm_t, *mut ncclConfig_t) {
        self.place
            .as_mut()
            .map_or((ptr::null_mut(), ptr::null_mut()), |place| (place.comm.as_ptr(), place.config.as_mut_ptr()))
    }

    /// The handle, once NCCL has put it there.
    fn comm(&self) -> Option<ncclComm_t> {
        // A thread of NCCL's may be the one that puts it there.
        let comm = self.place.as_ref()?.comm.load(Ordering::Acquire);
        (!comm.is_null()).then_some(comm)
    }

    /// Waits until it is made.
    pub(crate) fn finish(mut self, call: &'static str, wait: &mut Wait) -> Result<(RawComm, Vec<CString>), NcclError> {
        let comm = wait.until(|| {
            let Some(comm) = self.comm() else { return Ok(None) };
            // SAFETY: NCCL put it there, and no one else knows of it.
            Ok(unsafe { self.nccl.is_ready(call, comm) }?.then_some(comm))
        })?;
        let names = self.place.take().map_or_else(Vec::new, |place| place.config.into_names());
        // SAFETY: it exists. The place that also had its handle is no more.
        Ok((unsafe { RawComm::new(comm) }, names))
    }

    /// Of a split in which this rank gets no communicator, once that is done.
    pub(crate) fn forget_nothing_made(mut self) {
        if self.comm().is_none() {
            self.place = None;
        }
    }
}

/// Of a communicator that was not finished: aborted, as far as there is one.
impl Drop for Making {
    fn drop(&mut self) {
        if let Some(comm) = self.comm() {
            // SAFETY: NCCL put it there, and no one else knows of it.
            let comm = unsafe { RawComm::new(comm) };
            let (abort, device) = (self.nccl.comm_abort, self.device.clone());
            let call = move || {
                let comm: RawComm = comm;
                let _ = device.bind();
                // SAFETY: as above, and this is the last use of it.
                unsafe { abort(comm.raw()) }
            };
            let _ = Ending::begin(call, || {}).wait(ABORT_WAIT);
        }
        // Never freed: a thread of NCCL's may still be about to write there. It is small, and this is rare.
        std::mem::forget(self.place.take());
    }
}
