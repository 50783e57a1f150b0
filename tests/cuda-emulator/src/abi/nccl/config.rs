//! A communicator's configuration, as C code lays it out.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::offset_of;

use crate::nccl::kinds::Refusal;

/// The beginning of `ncclConfig_t`, as long as it has been the same in every version.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Config {
    /// Bytes of all of it.
    pub size: usize,
    /// [`CONFIG_MAGIC`].
    pub magic: u32,
    /// The version it was compiled for, as a code.
    pub version: u32,
    /// Whether calls block; [`UNSET`] is yes.
    pub blocking: c_int,
    /// Not used here.
    pub cga_cluster_size: c_int,
    /// The least thread blocks; not used here, but checked.
    pub min_ctas: c_int,
    /// The most.
    pub max_ctas: c_int,
    /// Not used here.
    pub net_name: *const c_char,
    /// Not used here.
    pub split_share: c_int,
    /// Not used here. From 2.26 on.
    pub traffic_class: c_int,
    /// What reports call the communicator. From 2.27 on.
    pub comm_name: *const c_char,
}

/// What every `ncclConfig_t` holds as its magic.
pub const CONFIG_MAGIC: u32 = 0xcafe_beef;
/// A number in a configuration that was not set.
pub const UNSET: c_int = c_int::MIN;
/// Bytes up to and with `blocking`, all that the first version has; more than any version has.
const SHORTEST_CONFIG: usize = 20;
const LONGEST_CONFIG: usize = 4096;

/// What a configuration says that is used here.
pub(super) struct Asked {
    pub(super) blocking: bool,
    pub(super) name: Option<String>,
}

/// # Safety
/// It is null or an `ncclConfig_t`, as long as it says, with texts that end.
pub(super) unsafe fn read_config(config: *mut c_void) -> Result<Option<Asked>, Refusal> {
    if config.is_null() {
        return Ok(None);
    }
    // SAFETY: every version is at least 16 bytes long and aligned as C aligns it, says the caller; the two are its first fields.
    let (size, magic) = unsafe { (*config.cast::<usize>(), *config.byte_add(8).cast::<u32>()) };
    if magic != CONFIG_MAGIC {
        return Err(Refusal::argument(format!("the configuration's magic is {magic:#x}, not {CONFIG_MAGIC:#x}")));
    }
    if !(SHORTEST_CONFIG..=LONGEST_CONFIG).contains(&size) {
        return Err(Refusal::argument(format!("a configuration of {size} bytes (at least {SHORTEST_CONFIG})")));
    }
    let mut known = Config::unset();
    // Fields were only ever added at the end; a pointer that is not all there is none.
    let n_bytes =
        if size < size_of::<Config>() { size.min(offset_of!(Config, comm_name)) } else { size_of::<Config>() };
    // SAFETY: the caller's is `size` bytes long, of which no more are copied, nor more than ours has. What is padding to the caller
    // (44 to 48 before 2.26) may be uninitialised, and lands in `traffic_class`, which nothing reads; the rest is numbers and pointers.
    unsafe { std::ptr::copy_nonoverlapping(config.cast::<u8>(), (&raw mut known).cast::<u8>(), n_bytes) };
    if !(21_400..100_000).contains(&known.version) {
        return Err(Refusal::argument(format!("the configuration is of version {}, which has none", known.version)));
    }
    if ![UNSET, 0, 1].contains(&known.blocking) {
        return Err(Refusal::argument(format!("blocking is {}, neither 0 nor 1", known.blocking)));
    }
    for (name, n_ctas) in [("minCTAs", known.min_ctas), ("maxCTAs", known.max_ctas)] {
        if n_ctas != UNSET && n_ctas <= 0 {
            return Err(Refusal::argument(format!("{name} is {n_ctas}, which is not above 0")));
        }
    }
    if known.min_ctas != UNSET && known.max_ctas != UNSET && known.min_ctas > known.max_ctas {
        return Err(Refusal::argument(format!("minCTAs {} is above maxCTAs {}", known.min_ctas, known.max_ctas)));
    }
    // SAFETY: it is there only where the caller's configuration has it, and ends, says the caller.
    let name = (!known.comm_name.is_null()).then(|| unsafe { CStr::from_ptr(known.comm_name) });
    let name = name.map(|name| name.to_string_lossy().into_owned());
    Ok(Some(Asked { blocking: known.blocking != 0, name }))
}

impl Config {
    /// As nccl.h initialises it, of the emulator's own version.
    pub const fn unset() -> Self {
        Self {
            size: size_of::<Self>(),
            magic: CONFIG_MAGIC,
            version: 23_004,
            blocking: UNSET,
            cga_cluster_size: UNSET,
            min_ctas: UNSET,
            max_ctas: UNSET,
            net_name: std::ptr::null(),
            split_share: UNSET,
            traffic_class: UNSET,
            comm_name: std::ptr::null(),
        }
    }
}
