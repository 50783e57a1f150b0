//! The driver's calls: devices, contexts and errors here, the rest below.
//!
//! A call that is not here does not exist in the library; cudarc panics where it is made. There are no modules and kernels, no
//! graphs, no memory pools, no managed memory and no copies between devices.
#![expect(
    clippy::missing_safety_doc,
    reason = "these are C's functions: what they ask of pointers is in CUDA's own manual"
)]
#![expect(missing_docs, reason = "as above")]

mod guard;
pub mod memory;
pub mod stream;

#[cfg(test)]
mod tests;

use std::ffi::{c_char, c_int, c_uint, c_void};

use crate::driver::{self, Code, ContextId, Error};
use guard::{SUCCESS, as_pointer, give, guard};

/// The version of the driver that this is like.
const DRIVER_VERSION: c_int = 13000;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuInit(_flags: c_uint) -> u32 {
    guard(driver::init)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDriverGetVersion(version: *mut c_int) -> u32 {
    // SAFETY: C's caller gives a pointer to an int or null.
    guard(|| unsafe { give(version, DRIVER_VERSION) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetCount(count: *mut c_int) -> u32 {
    guard(|| {
        let n = driver::n_devices()?;
        // SAFETY: C's caller gives a pointer to an int or null.
        unsafe { give(count, n as c_int) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGet(device: *mut c_int, ordinal: c_int) -> u32 {
    guard(|| {
        driver::device(ordinal)?;
        // SAFETY: C's caller gives a pointer to a device or null.
        unsafe { give(device, ordinal) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetName(name: *mut c_char, len: c_int, device: c_int) -> u32 {
    guard(|| {
        let mut text = format!("Emulated device {}", driver::device(device)?).into_bytes();
        let room = usize::try_from(len).ok().filter(|&room| room > 0);
        let room = room.ok_or_else(|| Error::new(Code::InvalidValue, "no room for a name"))?;
        text.truncate(room - 1);
        text.push(0);
        // SAFETY: C's caller gives a pointer to `len` chars or null, and the text with its end is no longer.
        unsafe { guard::give_bytes(name.cast(), &text) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceTotalMem_v2(bytes: *mut usize, device: c_int) -> u32 {
    guard(|| {
        let (_, total) = driver::memory_info(driver::device(device)?);
        // SAFETY: C's caller gives a pointer to a size or null.
        unsafe { give(bytes, total) }
    })
}

/// A device's attribute, like those of a GPU of compute capability 9.0 where anything asks for them. Zero is no or none.
fn attribute(device: usize, attribute: c_int) -> c_int {
    match attribute {
        1 => 1024,             // MAX_THREADS_PER_BLOCK
        2..=4 => 1024,         // MAX_BLOCK_DIM_X, _Y, _Z
        5 => i32::MAX,         // MAX_GRID_DIM_X
        6 | 7 => 65_535,       // MAX_GRID_DIM_Y, _Z
        8 => 48 << 10,         // MAX_SHARED_MEMORY_PER_BLOCK
        10 => 32,              // WARP_SIZE
        16 => 132,             // MULTIPROCESSOR_COUNT
        31 => 1,               // CONCURRENT_KERNELS
        33 => device as c_int, // PCI_BUS_ID
        40 => 3,               // ASYNC_ENGINE_COUNT
        41 => 1,               // UNIFIED_ADDRESSING
        75 => 9,               // COMPUTE_CAPABILITY_MAJOR
        78 => 1,               // STREAM_PRIORITIES_SUPPORTED
        115 => 1,              // MEMORY_POOLS_SUPPORTED: cuMemAllocAsync works
        _ => 0,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetAttribute(value: *mut c_int, which: c_int, device: c_int) -> u32 {
    guard(|| {
        let found = attribute(driver::device(device)?, which);
        // SAFETY: C's caller gives a pointer to an int or null.
        unsafe { give(value, found) }
    })
}

fn uuid(device: c_int) -> Result<[u8; 16], Error> {
    let mut uuid = *b"cuda-emulator\0\0\0";
    uuid[15] = driver::device(device)? as u8;
    Ok(uuid)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetUuid(to: *mut [u8; 16], device: c_int) -> u32 {
    // SAFETY: C's caller gives a pointer to a CUuuid, which is 16 bytes of alignment one, or null.
    guard(|| unsafe { give(to, uuid(device)?) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDeviceGetUuid_v2(to: *mut [u8; 16], device: c_int) -> u32 {
    // SAFETY: as for `cuDeviceGetUuid`, whose contract is the same.
    unsafe { cuDeviceGetUuid(to, device) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxRetain(context: *mut *mut c_void, device: c_int) -> u32 {
    guard(|| {
        let ContextId(handle) = driver::retain_primary(driver::device(device)?)?;
        // SAFETY: C's caller gives a pointer to a context or null.
        unsafe { give(context, as_pointer(handle)) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxRelease_v2(device: c_int) -> u32 {
    guard(|| driver::release_primary(driver::device(device)?))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuDevicePrimaryCtxReset_v2(device: c_int) -> u32 {
    guard(|| driver::reset_primary(driver::device(device)?))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxCreate_v4(
    context: *mut *mut c_void,
    _parameters: *mut c_void,
    _flags: c_uint,
    device: c_int,
) -> u32 {
    guard(|| {
        let made = driver::make(driver::device(device)?)?;
        driver::set_current(Some(made))?;
        // SAFETY: C's caller gives a pointer to a context or null.
        unsafe { give(context, as_pointer(made.0)) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxDestroy_v2(context: *mut c_void) -> u32 {
    guard(|| driver::destroy(ContextId(context.addr())))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxSetCurrent(context: *mut c_void) -> u32 {
    guard(|| driver::set_current((!context.is_null()).then(|| ContextId(context.addr()))))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetCurrent(context: *mut *mut c_void) -> u32 {
    guard(|| {
        let handle = driver::current_context().map_or(0, |ContextId(handle)| handle);
        // SAFETY: C's caller gives a pointer to a context or null.
        unsafe { give(context, as_pointer(handle)) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetDevice(device: *mut c_int) -> u32 {
    guard(|| {
        let found = driver::device_of_context(current()?)?;
        // SAFETY: C's caller gives a pointer to a device or null.
        unsafe { give(device, found as c_int) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxSynchronize() -> u32 {
    guard(driver::synchronize_context)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxSetFlags(_flags: c_uint) -> u32 {
    guard(|| driver::check(current()?))
}

/// The range of stream priorities; that of work is not emulated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) -> u32 {
    guard(|| {
        driver::check(current()?)?;
        for (to, value) in [(least, 0), (greatest, -5)] {
            if !to.is_null() {
                // SAFETY: it is not null, so C's caller points to an int.
                unsafe { give(to, value)? };
            }
        }
        Ok(())
    })
}

fn current() -> Result<ContextId, Error> {
    driver::current_context().ok_or_else(|| Error::new(Code::InvalidContext, "no context is current on this thread"))
}

/// The texts of a code; of one that the emulator does not give, none.
fn texts(code: u32) -> Option<(&'static std::ffi::CStr, &'static std::ffi::CStr)> {
    if code == SUCCESS { Some((c"CUDA_SUCCESS", c"no error")) } else { Code::of(code).map(Code::texts) }
}

/// # Safety
/// `to` is null or valid for a write.
unsafe fn give_text(to: *mut *const c_char, text: Option<&'static std::ffi::CStr>) -> u32 {
    guard(|| {
        // SAFETY: the caller says so.
        unsafe { give(to, text.map_or(std::ptr::null(), std::ffi::CStr::as_ptr))? };
        text.map(drop).ok_or_else(|| Error::new(Code::InvalidValue, "an unknown code"))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorName(code: u32, to: *mut *const c_char) -> u32 {
    // SAFETY: C's caller gives a pointer to a string or null.
    unsafe { give_text(to, texts(code).map(|(name, _)| name)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuGetErrorString(code: u32, to: *mut *const c_char) -> u32 {
    // SAFETY: C's caller gives a pointer to a string or null.
    unsafe { give_text(to, texts(code).map(|(_, text)| text)) }
}
