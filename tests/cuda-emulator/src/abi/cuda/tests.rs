//! The calls as C makes them.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicU32, Ordering};

use super::memory::*;
use super::stream::*;
use super::*;

static N_CALLS: AtomicU32 = AtomicU32::new(0);

unsafe extern "C" fn count(argument: *mut c_void) {
    N_CALLS.fetch_add(argument.addr() as u32, Ordering::SeqCst);
}

#[test]
fn a_program_in_c_works() {
    let (mut context, mut stream, mut event) = (std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut());
    let (mut device, mut address, mut host) = (0, 0_u64, std::ptr::null_mut());
    let (from, mut to) = ([1_u8, 2, 3, 4], [0_u8; 4]);
    // SAFETY: all pointers are to variables of the right type, and all buffers are as long as is said.
    unsafe {
        assert_eq!(cuInit(0), 0);
        assert_eq!(cuDeviceGet(&raw mut device, 1), 0);
        assert_eq!(cuCtxCreate_v4(&raw mut context, std::ptr::null_mut(), 0, device), 0);
        assert_eq!(cuStreamCreate(&raw mut stream, 1), 0);
        assert_eq!(cuEventCreate(&raw mut event, 2), 0);
        assert_eq!(cuMemAllocAsync(&raw mut address, 4, stream), 0);
        assert_eq!(cuMemcpyHtoDAsync_v2(address, from.as_ptr().cast(), 4, stream), 0);
        assert_eq!(cuMemcpyDtoHAsync_v2(to.as_mut_ptr().cast(), address, 4, stream), 0);
        assert_eq!(to, from);
        assert_eq!(cuMemHostAlloc(&raw mut host, 4, 0), 0);
        let pinned = host.cast::<[u8; 4]>();
        assert_eq!(cuMemcpyDtoHAsync_v2(host, address, 4, stream), 0);
        assert_eq!(cuLaunchHostFunc(stream, Some(count), std::ptr::without_provenance_mut(3)), 0);
        assert_eq!(cuEventRecord(event, stream), 0);
        assert_eq!(cuEventSynchronize(event), 0);
        assert_eq!((cuEventQuery(event), cuStreamQuery(stream)), (0, 0));
        assert_eq!((pinned.read(), N_CALLS.load(Ordering::SeqCst)), (from, 3));
        assert_eq!(cuMemsetD32Async(address, 0x0403_0201, 1, stream), 0);
        assert_eq!(cuMemFreeAsync(address, stream), 0);
        assert_eq!(cuMemFreeHost(host), 0);
        assert_eq!((cuEventDestroy_v2(event), cuStreamDestroy_v2(stream)), (0, 0));
        assert_eq!((cuCtxSynchronize(), cuCtxDestroy_v2(context)), (0, 0));
        assert_eq!(cuCtxDestroy_v2(context), Code::InvalidContext as u32);
    }
}

#[test]
fn codes_have_names_and_null_is_refused() {
    let mut text = std::ptr::null();
    // SAFETY: the pointer is to a variable of the right type; texts are static.
    unsafe {
        assert_eq!(cuGetErrorName(600, &raw mut text), 0);
        assert_eq!(CStr::from_ptr(text), c"CUDA_ERROR_NOT_READY");
        assert_eq!(cuGetErrorString(0, &raw mut text), 0);
        assert_eq!(CStr::from_ptr(text), c"no error");
        assert_eq!(cuGetErrorName(12345, &raw mut text), Code::InvalidValue as u32);
        assert!(text.is_null());
        assert_eq!(cuDriverGetVersion(std::ptr::null_mut()), Code::InvalidValue as u32);
        assert_eq!(cuLaunchHostFunc(std::ptr::null_mut(), None, std::ptr::null_mut()), Code::InvalidValue as u32);
    }
}

#[test]
fn a_panic_is_an_unknown_error() {
    assert_eq!(guard(|| panic!("on purpose")), Code::Unknown as u32);
}

#[test]
fn names_fit_where_they_go() {
    let mut name = [1_i8; 6];
    // SAFETY: there is room for as many chars as is said.
    unsafe {
        assert_eq!(cuInit(0), 0);
        assert_eq!(cuDeviceGetName(name.as_mut_ptr().cast(), 5, 0), 0);
        assert_eq!(cuDeviceGetName(name.as_mut_ptr().cast(), 0, 0), Code::InvalidValue as u32);
    }
    assert_eq!(name, [69, 109, 117, 108, 0, 1]);
}
