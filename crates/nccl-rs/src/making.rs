//! A communicator in the making.

use std::ffi::CString;
use std::ptr::{self, NonNull};
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
    /// None once it was freed. Not a `Box`: to move one is to claim that nobody else points to what it holds.
    place: Option<NonNull<Place>>,
}

struct Place {
    comm: AtomicPtr<ncclComm>,
    config: RawConfig,
}

impl Making {
    pub(crate) fn new(nccl: &'static Nccl, device: &Device, config: RawConfig) -> Self {
        let place = Box::leak(Box::new(Place { comm: AtomicPtr::default(), config })).into();
        Self { nccl, device: device.clone(), place: Some(place) }
    }

    /// What NCCL's calls take. Good until [`Making::finish`] has given the communicator, and for ever if it does not.
    pub(crate) fn arguments(&mut self) -> (*mut ncclComm_t, *mut ncclConfig_t) {
        self.place.map_or((ptr::null_mut(), ptr::null_mut()), |place| {
            // SAFETY: the place is there until it is taken out of `self`. NCCL has not heard of it yet, so that nothing else
            // uses the configuration now; what uses the handle's place is atomic.
            unsafe { ((*place.as_ptr()).comm.as_ptr(), (*place.as_ptr()).config.as_mut_ptr()) }
        })
    }

    /// The handle, once NCCL has put it there.
    fn comm(&self) -> Option<ncclComm_t> {
        // SAFETY: the place is there until it is taken out of `self`. Only the handle's part of it is looked at: NCCL may be
        // reading the configuration. A thread of NCCL's may be the one that puts the handle there, hence the atomic; NCCL writes
        // it as one pointer.
        let comm = unsafe { (*self.place?.as_ptr()).comm.load(Ordering::Acquire) };
        (!comm.is_null()).then_some(comm)
    }

    /// Takes the place out.
    ///
    /// # Safety
    /// NCCL is done with it.
    unsafe fn take(&mut self) -> Option<Place> {
        // SAFETY: it was leaked from a box in `new`, this is the one time that it is taken, and NCCL no longer points to it, says
        // the caller.
        self.place.take().map(|place| *unsafe { Box::from_raw(place.as_ptr()) })
    }

    /// Waits until it is made.
    pub(crate) fn finish(mut self, call: &'static str, wait: &mut Wait) -> Result<(RawComm, Vec<CString>), NcclError> {
        let comm = wait.until(|| {
            let Some(comm) = self.comm() else { return Ok(None) };
            // SAFETY: NCCL put it there, and no one else knows of it.
            Ok(unsafe { self.nccl.is_ready(call, comm) }?.then_some(comm))
        })?;
        // SAFETY: the communicator is ready, so that the call that was given the place is done; of the configuration NCCL keeps a
        // copy, and the strings, which stay.
        let names = unsafe { self.take() }.map_or_else(Vec::new, |place| place.config.into_names());
        // SAFETY: it exists. The place that also had its handle is no more.
        Ok((unsafe { RawComm::new(comm) }, names))
    }

    /// Of a split in which this rank gets no communicator.
    ///
    /// # Safety
    /// The split is done.
    pub(crate) unsafe fn forget_nothing_made(mut self) {
        if self.comm().is_none() {
            // SAFETY: the split is done, says the caller, and so is NCCL with what it was given.
            drop(unsafe { self.take() });
        }
    }
}

/// Of a communicator that was not finished: aborted, as far as there is one. The place is left: a thread of NCCL's may still be about
/// to write there. It is small, and this is rare.
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
    }
}
