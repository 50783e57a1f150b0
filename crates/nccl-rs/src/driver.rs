//! The functions of the CUDA driver that this crate calls, looked up when the program runs.
//!
//! An own table rather than cudarc's functions: those panic where the library or a function is missing, and read result codes
//! as a Rust enum, for which a code that it does not know is undefined behaviour. Here a code is a number.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::ptr;
use std::sync::OnceLock;

use cudarc::driver::sys::{CUcontext, CUdeviceptr, CUevent, CUstream};
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

use crate::error::NcclError;

/// The names of the driver: first the one that programs are linked with, which is the one that cudarc uses where it is linked.
const NAMES: [&str; 2] = ["libcuda.so.1", "libcuda.so"];

/// What cudarc calls to make and to drop a context, a stream or a slice; it panics where one is missing.
const CALLED_BY_CUDARC: [&str; 15] = [
    "cuInit",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxRelease_v2",
    "cuCtxGetCurrent",
    "cuCtxSetCurrent",
    "cuStreamSynchronize",
    "cuStreamDestroy_v2",
    "cuStreamWaitEvent",
    "cuEventDestroy_v2",
    "cuMemFreeAsync",
    "cuMemFree_v2",
    "cuGetErrorName",
    "cuGetErrorString",
];

/// `CUDA_SUCCESS`.
pub(crate) const SUCCESS: u32 = 0;
/// `CUDA_ERROR_INVALID_DEVICE`.
pub(crate) const INVALID_DEVICE: u32 = 101;
/// `CUDA_ERROR_NOT_READY`.
pub(crate) const NOT_READY: u32 = 600;

/// Declares the table, and how it is filled.
macro_rules! table {
    ($($field:ident = $name:literal: fn($($argument:ty),*);)*) => {
        /// The driver's functions. Never unloaded.
        pub(crate) struct Driver {
            $(pub(crate) $field: unsafe extern "C" fn($($argument),*) -> u32,)*
        }

        impl Driver {
            fn of(library: &Library) -> Result<Self, NcclError> {
                Ok(Self {
                    $(
                        // SAFETY: the type is that of the function of this name in cuda.h: C's calling convention, handles as
                        // pointers, and the result, an enum without negative values, as an unsigned int.
                        $field: unsafe { function(library, $name) }?,
                    )*
                })
            }
        }
    };
}

table! {
    init = "cuInit": fn(c_uint);
    device_get_count = "cuDeviceGetCount": fn(*mut c_int);
    ctx_get_current = "cuCtxGetCurrent": fn(*mut CUcontext);
    ctx_set_current = "cuCtxSetCurrent": fn(CUcontext);
    stream_create = "cuStreamCreate": fn(*mut CUstream, c_uint);
    stream_destroy = "cuStreamDestroy_v2": fn(CUstream);
    stream_wait_event = "cuStreamWaitEvent": fn(CUstream, CUevent, c_uint);
    event_create = "cuEventCreate": fn(*mut CUevent, c_uint);
    event_record = "cuEventRecord": fn(CUevent, CUstream);
    event_query = "cuEventQuery": fn(CUevent);
    event_destroy = "cuEventDestroy_v2": fn(CUevent);
    mem_alloc_async = "cuMemAllocAsync": fn(*mut CUdeviceptr, usize, CUstream);
    mem_free_async = "cuMemFreeAsync": fn(CUdeviceptr, CUstream);
    mem_alloc = "cuMemAlloc_v2": fn(*mut CUdeviceptr, usize);
    mem_free = "cuMemFree_v2": fn(CUdeviceptr);
    mem_host_alloc = "cuMemHostAlloc": fn(*mut *mut c_void, usize, c_uint);
    mem_free_host = "cuMemFreeHost": fn(*mut c_void);
    memcpy_to_device = "cuMemcpyHtoDAsync_v2": fn(CUdeviceptr, *const c_void, usize, CUstream);
    memcpy_to_host = "cuMemcpyDtoHAsync_v2": fn(*mut c_void, CUdeviceptr, usize, CUstream);
    get_error_name = "cuGetErrorName": fn(u32, *mut *const c_char);
    get_error_string = "cuGetErrorString": fn(u32, *mut *const c_char);
}

/// # Safety
/// `F` is the type of that function.
unsafe fn function<F: Copy>(library: &Library, name: &'static str) -> Result<F, NcclError> {
    // SAFETY: the caller vouches for the type.
    match unsafe { library.get::<F>(name.as_bytes()) } {
        Ok(symbol) => Ok(*symbol),
        Err(_) => Err(NcclError::MissingDriverSymbol { name }),
    }
}

impl Driver {
    /// The driver, loaded and initialised at the first call that finds it.
    pub(crate) fn get() -> Result<&'static Self, NcclError> {
        static DRIVER: OnceLock<Driver> = OnceLock::new();
        if let Some(driver) = DRIVER.get() {
            return Ok(driver);
        }
        let driver = Self::load(&NAMES)?;
        // SAFETY: cuInit may be called at any time, from any thread, and more than once; 0 is the only flag there is.
        driver.check("cuInit", unsafe { (driver.init)(0) })?;
        Ok(DRIVER.get_or_init(|| driver))
    }

    /// The first of these that can be loaded.
    fn load(names: &[&str]) -> Result<Self, NcclError> {
        // SAFETY: loading runs the library's initialisers. These are the names of the CUDA driver: a process that asks for a
        // GPU trusts it. For the whole process: cudarc's calls may have been linked lazily (`crate::lazy`).
        let load = |name: &&str| unsafe { Library::open(Some(*name), RTLD_NOW | RTLD_GLOBAL) }.ok();
        let mut libraries: Vec<_> = names.iter().filter_map(load).collect();
        // Of all: cudarc may load another than this crate does, where the names are of different libraries.
        for library in &libraries {
            for name in CALLED_BY_CUDARC {
                // SAFETY: it is only looked for, never called.
                unsafe { function::<*const c_void>(library, name) }?;
            }
        }
        if libraries.is_empty() {
            return Err(NcclError::NoDriver);
        }
        let library = libraries.swap_remove(0);
        let driver = Self::of(&library)?;
        // The functions must stay where they are for as long as the process lives.
        std::mem::forget(library);
        Ok(driver)
    }

    /// How many GPUs the process may see.
    pub(crate) fn device_count(&self) -> Result<usize, NcclError> {
        let mut count: c_int = 0;
        // SAFETY: it writes one int, which `count` is.
        self.check("cuDeviceGetCount", unsafe { (self.device_get_count)(&raw mut count) })?;
        Ok(usize::try_from(count).unwrap_or(0))
    }

    /// Makes a context the calling thread's.
    ///
    /// # Safety
    /// The context exists.
    pub(crate) unsafe fn bind(&self, context: CUcontext) -> Result<(), NcclError> {
        let mut current: CUcontext = ptr::null_mut();
        // SAFETY: it writes one handle, which `current` is.
        self.check("cuCtxGetCurrent", unsafe { (self.ctx_get_current)(&raw mut current) })?;
        if current == context {
            return Ok(());
        }
        // SAFETY: the context exists, says the caller.
        self.check("cuCtxSetCurrent", unsafe { (self.ctx_set_current)(context) })
    }

    /// A result as a typed one.
    pub(crate) fn check(&self, call: &'static str, code: u32) -> Result<(), NcclError> {
        if code == SUCCESS { Ok(()) } else { Err(self.error(call, code)) }
    }

    pub(crate) fn error(&self, call: &'static str, code: u32) -> NcclError {
        let texts = [self.text(self.get_error_name, code), self.text(self.get_error_string, code)];
        let known: Vec<_> = texts.into_iter().flatten().collect();
        let text = if known.is_empty() { "not known to the driver".to_string() } else { known.join(": ") };
        NcclError::Cuda { call, code, text }
    }

    fn text(&self, ask: unsafe extern "C" fn(u32, *mut *const c_char) -> u32, code: u32) -> Option<String> {
        let mut text: *const c_char = ptr::null();
        // SAFETY: both functions that are passed take any number, and write one pointer, which `text` is.
        let answer = unsafe { ask(code, &raw mut text) };
        if answer != SUCCESS || text.is_null() {
            return None;
        }
        // SAFETY: for a code that it knows the driver gives a string that ends in NUL and is never freed.
        Some(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_not_there_is_a_typed_error() {
        assert_eq!(Driver::load(&["libnothing-of-that-name.so"]).err(), Some(NcclError::NoDriver));
    }

    #[test]
    fn a_library_that_is_no_driver_is_a_typed_error() {
        // The C library is on every machine, and has none of it.
        let error = Driver::load(&["libc.so.6"]).err();
        assert_eq!(error, Some(NcclError::MissingDriverSymbol { name: CALLED_BY_CUDARC[0] }));
    }
}
