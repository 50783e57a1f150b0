//! Memory, copies and fills.

use std::ffi::{c_uint, c_void};

use super::guard::{give, give_bytes, guard, take};
use crate::driver;

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> u32 {
    guard(|| {
        let info = driver::memory_info(driver::device_of_context(super::current()?)?);
        // SAFETY: C's caller gives two pointers to sizes, or nulls.
        unsafe {
            give(free, info.0)?;
            give(total, info.1)
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAlloc_v2(address: *mut u64, n_bytes: usize) -> u32 {
    guard(|| {
        let made = driver::allocate(n_bytes)?;
        // SAFETY: C's caller gives a pointer to a device pointer or null.
        unsafe { give(address, made) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemAllocAsync(address: *mut u64, n_bytes: usize, stream: *mut c_void) -> u32 {
    guard(|| {
        let made = driver::allocate_async(n_bytes, stream.addr())?;
        // SAFETY: C's caller gives a pointer to a device pointer or null.
        unsafe { give(address, made) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemFree_v2(address: u64) -> u32 {
    guard(|| driver::free(address))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemFreeAsync(address: u64, stream: *mut c_void) -> u32 {
    guard(|| driver::free_async(address, stream.addr()))
}

/// The flags (portable, mapped, write-combined) change nothing here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemHostAlloc(address: *mut *mut c_void, n_bytes: usize, _flags: c_uint) -> u32 {
    guard(|| {
        let made = driver::allocate_host(n_bytes)?;
        // SAFETY: C's caller gives a pointer to a pointer or null.
        unsafe { give(address, std::ptr::with_exposed_provenance_mut(made as usize)) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemFreeHost(address: *mut c_void) -> u32 {
    guard(|| driver::free_host(address.addr() as u64))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyHtoD_v2(to: u64, from: *const c_void, n_bytes: usize) -> u32 {
    const WHAT: &str = "cuMemcpyHtoD";
    guard(|| {
        let address = from.addr() as u64;
        if driver::is_pinned(address, n_bytes) {
            return driver::copy(WHAT, to, address, n_bytes);
        }
        // SAFETY: C's caller gives a pointer to so many bytes, which stay as they are during the call.
        driver::copy_in(WHAT, to, unsafe { take(from, n_bytes)? })
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyHtoDAsync_v2(
    to: u64,
    from: *const c_void,
    n_bytes: usize,
    stream: *mut c_void,
) -> u32 {
    const WHAT: &str = "cuMemcpyHtoDAsync";
    guard(|| {
        let address = from.addr() as u64;
        if driver::is_pinned(address, n_bytes) {
            return driver::copy_async(WHAT, to, address, n_bytes, stream.addr());
        }
        // SAFETY: C's caller gives a pointer to so many bytes. They are pageable, so they are taken during the call.
        driver::copy_in_async(WHAT, to, unsafe { take(from, n_bytes)? }, stream.addr())
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyDtoH_v2(to: *mut c_void, from: u64, n_bytes: usize) -> u32 {
    const WHAT: &str = "cuMemcpyDtoH";
    guard(|| {
        let address = to.addr() as u64;
        if driver::is_pinned(address, n_bytes) {
            return driver::copy(WHAT, address, from, n_bytes);
        }
        let bytes = driver::copy_out(WHAT, from, n_bytes, 0)?;
        // SAFETY: C's caller gives a pointer to so many bytes that may be written during the call.
        unsafe { give_bytes(to, &bytes) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, n_bytes: usize, stream: *mut c_void) -> u32 {
    const WHAT: &str = "cuMemcpyDtoHAsync";
    guard(|| {
        let address = to.addr() as u64;
        if driver::is_pinned(address, n_bytes) {
            return driver::copy_async(WHAT, address, from, n_bytes, stream.addr());
        }
        let bytes = driver::copy_out(WHAT, from, n_bytes, stream.addr())?;
        // SAFETY: C's caller gives a pointer to so many bytes; they are pageable, so they are written during the call.
        unsafe { give_bytes(to, &bytes) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyDtoD_v2(to: u64, from: u64, n_bytes: usize) -> u32 {
    guard(|| driver::copy_async("cuMemcpyDtoD", to, from, n_bytes, 0))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, n_bytes: usize, stream: *mut c_void) -> u32 {
    guard(|| driver::copy_async("cuMemcpyDtoDAsync", to, from, n_bytes, stream.addr()))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemsetD8_v2(address: u64, value: u8, n: usize) -> u32 {
    guard(|| driver::fill("cuMemsetD8", address, &[value], n, 0))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemsetD8Async(address: u64, value: u8, n: usize, stream: *mut c_void) -> u32 {
    guard(|| driver::fill("cuMemsetD8Async", address, &[value], n, stream.addr()))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemsetD32_v2(address: u64, value: c_uint, n: usize) -> u32 {
    guard(|| driver::fill("cuMemsetD32", address, &value.to_ne_bytes(), n, 0))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuMemsetD32Async(address: u64, value: c_uint, n: usize, stream: *mut c_void) -> u32 {
    guard(|| driver::fill("cuMemsetD32Async", address, &value.to_ne_bytes(), n, stream.addr()))
}
