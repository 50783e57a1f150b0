//! Streams and events.

use std::ffi::{c_int, c_uint, c_void};

use super::guard::{as_pointer, give, guard};
use crate::driver::{self, Code, ContextId, Error};
use crate::fault;

/// A stream that is not ordered with the default stream.
const STREAM_NON_BLOCKING: c_uint = 1;
/// An event that keeps no time.
const EVENT_DISABLE_TIMING: c_uint = 2;

fn done(is_done: bool) -> Result<(), Error> {
    if is_done { Ok(()) } else { Err(Error::new(Code::NotReady, "not done")) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamCreate(stream: *mut *mut c_void, flags: c_uint) -> u32 {
    guard(|| {
        if flags & !STREAM_NON_BLOCKING != 0 {
            return Err(Error::new(Code::InvalidValue, format!("stream flags {flags:#x}")));
        }
        let made = driver::create_stream(flags & STREAM_NON_BLOCKING == 0)?;
        // SAFETY: C's caller gives a pointer to a stream or null.
        unsafe { give(stream, as_pointer(made)) }
    })
}

/// The priority is taken, and changes nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamCreateWithPriority(stream: *mut *mut c_void, flags: c_uint, _priority: c_int) -> u32 {
    // SAFETY: as for `cuStreamCreate`.
    unsafe { cuStreamCreate(stream, flags) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamDestroy_v2(stream: *mut c_void) -> u32 {
    guard(|| driver::destroy_stream(stream.addr()))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamSynchronize(stream: *mut c_void) -> u32 {
    guard(|| driver::synchronize_stream(stream.addr()))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamQuery(stream: *mut c_void) -> u32 {
    guard(|| done(driver::query_stream(stream.addr())?))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamWaitEvent(stream: *mut c_void, event: *mut c_void, _flags: c_uint) -> u32 {
    let (stream, event) = (stream.addr(), event.addr());
    guard(|| match driver::wait_orders(stream, event) && fault::skips_event_wait() {
        true => Ok(()),
        false => driver::wait_event(stream, event),
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuStreamGetCtx(stream: *mut c_void, context: *mut *mut c_void) -> u32 {
    guard(|| {
        let ContextId(found) = driver::context_of_stream(stream.addr())?;
        // SAFETY: C's caller gives a pointer to a context or null.
        unsafe { give(context, as_pointer(found)) }
    })
}

/// What the caller wants called, with its argument.
struct HostCall {
    function: unsafe extern "C" fn(*mut c_void),
    argument: *mut c_void,
}

// SAFETY: CUDA's contract for `cuLaunchHostFunc` is that the function is called with its argument from a thread of the
// driver's; whoever passes them says that this is fine.
unsafe impl Send for HostCall {}

impl HostCall {
    fn call(self) {
        // SAFETY: the caller of `cuLaunchHostFunc` says that the function may be called once with this argument, once what is
        // before it on the stream is done; that is when the stream's worker comes here.
        unsafe { (self.function)(self.argument) }
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuLaunchHostFunc(
    stream: *mut c_void,
    function: Option<unsafe extern "C" fn(*mut c_void)>,
    argument: *mut c_void,
) -> u32 {
    guard(|| {
        let function = function.ok_or_else(|| Error::new(Code::InvalidValue, "a null function"))?;
        let call = HostCall { function, argument };
        driver::launch_host(stream.addr(), Box::new(move || call.call()))
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventCreate(event: *mut *mut c_void, flags: c_uint) -> u32 {
    guard(|| {
        let made = driver::create_event(flags & EVENT_DISABLE_TIMING == 0)?;
        // SAFETY: C's caller gives a pointer to an event or null.
        unsafe { give(event, as_pointer(made)) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventDestroy_v2(event: *mut c_void) -> u32 {
    guard(|| driver::destroy_event(event.addr()))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventRecord(event: *mut c_void, stream: *mut c_void) -> u32 {
    guard(|| driver::record_event(event.addr(), stream.addr()))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventQuery(event: *mut c_void) -> u32 {
    guard(|| done(driver::query_event(event.addr())?))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventSynchronize(event: *mut c_void) -> u32 {
    guard(|| driver::synchronize_event(event.addr()))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventElapsedTime(ms: *mut f32, start: *mut c_void, end: *mut c_void) -> u32 {
    guard(|| {
        let elapsed = driver::elapsed_ms(start.addr(), end.addr())?;
        // SAFETY: C's caller gives a pointer to a float or null.
        unsafe { give(ms, elapsed) }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuEventElapsedTime_v2(ms: *mut f32, start: *mut c_void, end: *mut c_void) -> u32 {
    // SAFETY: as for `cuEventElapsedTime`.
    unsafe { cuEventElapsedTime(ms, start, end) }
}
