//! The NCCL that is found when the program runs.
//!
//! An own table of its functions rather than cudarc's: see [`crate::driver`]; besides, cudarc never tries `libnccl.so.2`.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::sync::OnceLock;

use cudarc::driver::sys::CUstream;
use cudarc::nccl::sys::{ncclComm_t, ncclConfig_t, ncclUniqueId};
use libloading::Library;

use crate::error::NcclError;
use crate::version::Version;

/// The names of NCCL. Few machines have the second, which comes with the headers.
const NAMES: [&str; 2] = ["libnccl.so.2", "libnccl.so"];

/// `ncclSuccess`.
pub(crate) const SUCCESS: c_int = 0;
/// `ncclInProgress`: not an error, the call goes on by itself.
pub(crate) const IN_PROGRESS: c_int = 7;

/// The first version with communicators whose calls do not block.
const NON_BLOCKING: Version = Version { major: 2, minor: 14, patch: 0 };
/// The first version that can split communicators.
const SPLIT: Version = Version { major: 2, minor: 18, patch: 0 };

/// More of the last error's text is not read: NCCL's own buffer is as long.
const LONGEST_TEXT: usize = 1024;

/// Declares the table, and how it is filled: what every version has, and what came later.
macro_rules! table {
    (
        always { $($field:ident = $name:literal: fn($($argument:ty),*) -> $result:ty;)* }
        later { $($later:ident = $later_name:literal: fn($($later_argument:ty),*) -> $later_result:ty;)* }
    ) => {
        /// NCCL's functions. Never unloaded.
        pub(crate) struct Nccl {
            version: Version,
            $(pub(crate) $field: unsafe extern "C" fn($($argument),*) -> $result,)*
            $($later: Option<unsafe extern "C" fn($($later_argument),*) -> $later_result>,)*
        }

        impl Nccl {
            fn of(library: &Library, version: Version) -> Result<Self, NcclError> {
                Ok(Self {
                    version,
                    $(
                        // SAFETY: the type is that of the function of this name in nccl.h: C's calling convention, handles as
                        // pointers, and enums, none of which has values that do not fit, as ints.
                        $field: unsafe { function(library, $name) }?,
                    )*
                    // SAFETY: as above.
                    $($later: unsafe { function(library, $later_name) }.ok(),)*
                })
            }

            /// One whose functions note that they were called, and answer as the test has set.
            #[cfg(test)]
            pub(crate) const fn fake() -> Self {
                use crate::library::fake::Answer;
                Self {
                    version: Version { major: 2, minor: 30, patch: 0 },
                    $($field: {
                        unsafe extern "C" fn call($(_: $argument),*) -> $result { Answer::to($name) }
                        call
                    },)*
                    $($later: {
                        unsafe extern "C" fn call($(_: $later_argument),*) -> $later_result { Answer::to($later_name) }
                        Some(call)
                    },)*
                }
            }
        }
    };
}

table! {
    always {
        get_unique_id = "ncclGetUniqueId": fn(*mut ncclUniqueId) -> c_int;
        get_error_string = "ncclGetErrorString": fn(c_int) -> *const c_char;
        comm_abort = "ncclCommAbort": fn(ncclComm_t) -> c_int;
        comm_destroy = "ncclCommDestroy": fn(ncclComm_t) -> c_int;
        comm_count = "ncclCommCount": fn(ncclComm_t, *mut c_int) -> c_int;
        comm_user_rank = "ncclCommUserRank": fn(ncclComm_t, *mut c_int) -> c_int;
        comm_get_async_error = "ncclCommGetAsyncError": fn(ncclComm_t, *mut c_int) -> c_int;
        group_start = "ncclGroupStart": fn() -> c_int;
        group_end = "ncclGroupEnd": fn() -> c_int;
        send = "ncclSend": fn(*const c_void, usize, c_int, c_int, ncclComm_t, CUstream) -> c_int;
        recv = "ncclRecv": fn(*mut c_void, usize, c_int, c_int, ncclComm_t, CUstream) -> c_int;
        all_reduce = "ncclAllReduce": fn(*const c_void, *mut c_void, usize, c_int, c_int, ncclComm_t, CUstream) -> c_int;
        all_gather = "ncclAllGather": fn(*const c_void, *mut c_void, usize, c_int, ncclComm_t, CUstream) -> c_int;
        reduce_scatter = "ncclReduceScatter":
            fn(*const c_void, *mut c_void, usize, c_int, c_int, ncclComm_t, CUstream) -> c_int;
        broadcast = "ncclBroadcast": fn(*const c_void, *mut c_void, usize, c_int, c_int, ncclComm_t, CUstream) -> c_int;
    }
    later {
        get_last_error = "ncclGetLastError": fn(ncclComm_t) -> *const c_char;
        comm_init_rank_config = "ncclCommInitRankConfig":
            fn(*mut ncclComm_t, c_int, ncclUniqueId, c_int, *mut ncclConfig_t) -> c_int;
        comm_finalize = "ncclCommFinalize": fn(ncclComm_t) -> c_int;
        comm_split = "ncclCommSplit": fn(ncclComm_t, c_int, c_int, *mut ncclComm_t, *mut ncclConfig_t) -> c_int;
    }
}

/// `ncclCommInitRankConfig`.
pub(crate) type CommInitRankConfig =
    unsafe extern "C" fn(*mut ncclComm_t, c_int, ncclUniqueId, c_int, *mut ncclConfig_t) -> c_int;
/// `ncclCommFinalize`.
pub(crate) type CommFinalize = unsafe extern "C" fn(ncclComm_t) -> c_int;
/// `ncclCommSplit`.
pub(crate) type CommSplit = unsafe extern "C" fn(ncclComm_t, c_int, c_int, *mut ncclComm_t, *mut ncclConfig_t) -> c_int;

/// # Safety
/// `F` is the type of that function.
unsafe fn function<F: Copy>(library: &Library, name: &'static str) -> Result<F, NcclError> {
    // SAFETY: the caller vouches for the type.
    match unsafe { library.get::<F>(name.as_bytes()) } {
        Ok(symbol) => Ok(*symbol),
        Err(_) => Err(NcclError::MissingSymbol { name }),
    }
}

impl Nccl {
    /// NCCL, loaded at the first call that finds it.
    pub(crate) fn get() -> Result<&'static Self, NcclError> {
        static NCCL: OnceLock<Nccl> = OnceLock::new();
        if let Some(nccl) = NCCL.get() {
            return Ok(nccl);
        }
        let nccl = Self::load(&NAMES)?;
        Ok(NCCL.get_or_init(|| nccl))
    }

    /// The first of these that can be loaded.
    fn load(names: &[&str]) -> Result<Self, NcclError> {
        // SAFETY: loading runs the library's initialisers. These are the names of NCCL: a process that asks for it trusts it.
        let library = names.iter().find_map(|name| unsafe { Library::new(*name) }.ok());
        let library = library.ok_or_else(|| NcclError::NotPresent { looked_for: names.join(" and ") })?;
        type GetVersion = unsafe extern "C" fn(*mut c_int) -> c_int;
        // SAFETY: that is its type in nccl.h.
        let get_version = unsafe { function::<GetVersion>(&library, "ncclGetVersion") }?;
        let mut code: c_int = 0;
        // SAFETY: it writes one int, which `code` is.
        let result = unsafe { get_version(&raw mut code) };
        let nccl = Self::of(&library, Version::from_code(u32::try_from(code).unwrap_or(0)))?;
        nccl.check("ncclGetVersion", result)?;
        // The functions must stay where they are for as long as the process lives.
        std::mem::forget(library);
        Ok(nccl)
    }

    pub(crate) const fn version(&self) -> Version {
        self.version
    }

    /// # Errors
    /// [`NcclError::TooOld`], or [`NcclError::MissingSymbol`] where the version should have it; as those that follow.
    pub(crate) fn comm_init_rank_config(&self) -> Result<CommInitRankConfig, NcclError> {
        later(self.comm_init_rank_config, "ncclCommInitRankConfig", NON_BLOCKING, self.version)
    }

    pub(crate) fn comm_finalize(&self) -> Result<CommFinalize, NcclError> {
        later(self.comm_finalize, "ncclCommFinalize", NON_BLOCKING, self.version)
    }

    pub(crate) fn comm_split(&self) -> Result<CommSplit, NcclError> {
        later(self.comm_split, "ncclCommSplit", SPLIT, self.version)
    }

    /// A result as a typed one, of a call that concerns no communicator.
    pub(crate) fn check(&self, call: &'static str, code: c_int) -> Result<(), NcclError> {
        if code == SUCCESS || code == IN_PROGRESS {
            return Ok(());
        }
        // SAFETY: no communicator is one that it takes.
        Err(unsafe { self.error(call, code, ptr::null_mut()) })
    }

    /// Whether the calls made so far with a communicator are done on the host, or how one of them failed.
    ///
    /// # Safety
    /// `comm` is a communicator that exists and that no other thread uses now.
    pub(crate) unsafe fn is_ready(&self, call: &'static str, comm: ncclComm_t) -> Result<bool, NcclError> {
        let mut state: c_int = 0;
        // SAFETY: the caller vouches for the communicator. It writes one int, which `state` is.
        let result = unsafe { (self.comm_get_async_error)(comm, &raw mut state) };
        match (result, state) {
            (SUCCESS, SUCCESS) => Ok(true),
            (SUCCESS, IN_PROGRESS) => Ok(false),
            // SAFETY: as above.
            (SUCCESS, code) => Err(unsafe { self.error(call, code, comm) }),
            // SAFETY: as above.
            (code, _) => Err(unsafe { self.error("ncclCommGetAsyncError", code, comm) }),
        }
    }

    /// How many ranks a communicator has, and which is this one.
    ///
    /// # Safety
    /// `comm` is a communicator that exists and that no other thread uses now.
    pub(crate) unsafe fn place_in(&self, comm: ncclComm_t) -> Result<(usize, usize), NcclError> {
        let ask = |function: unsafe extern "C" fn(ncclComm_t, *mut c_int) -> c_int, call| {
            let mut number: c_int = -1;
            // SAFETY: the caller vouches for the communicator; it writes one int, which `number` is.
            self.check(call, unsafe { function(comm, &raw mut number) })?;
            usize::try_from(number).map_err(|_| NcclError::Misuse {
                call,
                reason: format!("NCCL answered {number}, which is no number of ranks"),
            })
        };
        let n_ranks = ask(self.comm_count, "ncclCommCount")?;
        let rank = ask(self.comm_user_rank, "ncclCommUserRank")?;
        if rank >= n_ranks {
            let reason = format!("NCCL answered rank {rank} of {n_ranks}, which cannot be");
            return Err(NcclError::Misuse { call: "ncclCommUserRank", reason });
        }
        Ok((n_ranks, rank))
    }

    /// # Safety
    /// `comm` is null, or a communicator that exists and that no other thread uses now.
    pub(crate) unsafe fn error(&self, call: &'static str, code: c_int, comm: ncclComm_t) -> NcclError {
        // SAFETY: it takes any number, and gives a string that is never freed.
        let text = unsafe { text_at((self.get_error_string)(code)) };
        let last = match self.get_last_error {
            // SAFETY: the caller vouches for the communicator; what it gives is a buffer that is never freed.
            Some(get_last_error) => unsafe { text_at(get_last_error(comm)) },
            None => String::new(),
        };
        NcclError::Nccl { call, code, text, last }
    }
}

/// A function that came with a version, of the one that was found.
fn later<F>(function: Option<F>, name: &'static str, since: Version, found: Version) -> Result<F, NcclError> {
    at_least(since, found)?;
    function.ok_or(NcclError::MissingSymbol { name })
}

fn at_least(minimum: Version, found: Version) -> Result<(), NcclError> {
    if found < minimum { Err(NcclError::TooOld { found, minimum }) } else { Ok(()) }
}

/// # Safety
/// `from` is null, or bytes that end in NUL and stay allocated.
unsafe fn text_at(from: *const c_char) -> String {
    if from.is_null() {
        return String::new();
    }
    let mut bytes = Vec::new();
    while bytes.len() < LONGEST_TEXT {
        // Volatile, and one at a time: the last error's text is one buffer of the process, which another thread of NCCL's may
        // be writing to. A torn text is the worst that comes of it.
        // SAFETY: no NUL came before, so that this byte is still part of it.
        let byte = unsafe { from.add(bytes.len()).cast::<u8>().read_volatile() };
        if byte == 0 {
            break;
        }
        bytes.push(byte);
    }
    String::from_utf8_lossy(&bytes).trim_end().to_string()
}

/// The version of the NCCL that is loaded.
///
/// # Errors
/// [`NcclError::NotPresent`] on a machine without NCCL.
pub fn runtime_version() -> Result<Version, NcclError> {
    Ok(Nccl::get()?.version())
}

/// The same, if it is at least `minimum`.
///
/// # Errors
/// [`NcclError::TooOld`], and as [`runtime_version`].
pub fn require_version(minimum: Version) -> Result<Version, NcclError> {
    let nccl = Nccl::get()?;
    at_least(minimum, nccl.version())?;
    Ok(nccl.version())
}

/// What the functions of [`Nccl::fake`] answer.
#[cfg(test)]
pub(crate) mod fake {
    use std::cell::{Cell, RefCell};
    use std::ffi::{c_char, c_int};

    thread_local! {
        /// What was called.
        pub(crate) static CALLED: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
        /// What every call answers.
        pub(crate) static CODE: Cell<c_int> = const { Cell::new(0) };
    }

    pub(super) trait Answer {
        fn to(name: &'static str) -> Self;
    }

    impl Answer for c_int {
        fn to(name: &'static str) -> Self {
            CALLED.with_borrow_mut(|called| called.push(name));
            CODE.get()
        }
    }

    impl Answer for *const c_char {
        fn to(name: &'static str) -> Self {
            let text = if name == "ncclGetLastError" { c"rank 3 is gone" } else { c"unknown result code" };
            text.as_ptr()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_not_there_is_a_typed_error_that_names_what_was_looked_for() {
        let error = Nccl::load(&["libnothing.so.2", "libnothing.so"]).err();
        assert_eq!(error, Some(NcclError::NotPresent { looked_for: "libnothing.so.2 and libnothing.so".into() }));
    }

    #[test]
    fn a_library_that_is_not_nccl_is_a_typed_error() {
        // The C library is on every machine, and has none of it.
        let error = Nccl::load(&["libc.so.6"]).err();
        assert_eq!(error, Some(NcclError::MissingSymbol { name: "ncclGetVersion" }));
    }

    #[test]
    fn a_function_is_not_asked_of_a_version_before_it() {
        let before = Version::from_code(21705);
        let too_old = NcclError::TooOld { found: before, minimum: SPLIT };
        assert_eq!(later(Some(1), "ncclCommSplit", SPLIT, before), Err(too_old.clone()));
        assert_eq!(later(None::<u8>, "ncclCommSplit", SPLIT, before), Err(too_old));
        assert_eq!(later(Some(1), "ncclCommSplit", SPLIT, SPLIT), Ok(1));
        let missing = NcclError::MissingSymbol { name: "ncclCommSplit" };
        assert_eq!(later(None::<u8>, "ncclCommSplit", SPLIT, SPLIT), Err(missing));
    }

    #[test]
    fn a_code_that_nobody_knows_is_an_error_with_all_that_nccl_says() {
        let error = Nccl::fake().check("ncclSend", 4711).unwrap_err();
        assert_eq!(error.to_string(), "ncclSend: NCCL error 4711 (unknown result code): rank 3 is gone");
        assert_eq!(Nccl::fake().check("ncclSend", IN_PROGRESS), Ok(()));
    }

    #[test]
    fn a_communicator_is_ready_failed_or_neither() {
        // The fake writes no state, so that only the call's own result is to be seen.
        let nccl = Nccl::fake();
        fake::CODE.set(SUCCESS);
        // SAFETY: the fake does not look at it.
        let ready = || unsafe { nccl.is_ready("ncclSend", ptr::null_mut()) };
        assert_eq!(ready(), Ok(true));
        fake::CODE.set(2);
        assert!(matches!(ready(), Err(NcclError::Nccl { call: "ncclCommGetAsyncError", code: 2, .. })));
    }

    #[test]
    fn a_place_that_nccl_did_not_tell_is_an_error() {
        fake::CODE.set(SUCCESS);
        // SAFETY: the fake does not look at it, and writes no number.
        let place = unsafe { Nccl::fake().place_in(ptr::null_mut()) };
        assert!(matches!(place, Err(NcclError::Misuse { call: "ncclCommCount", .. })), "{place:?}");
    }

    #[test]
    fn a_text_ends_at_its_end() {
        let bytes = c"peer gone \n";
        // SAFETY: a C string.
        assert_eq!(unsafe { text_at(bytes.as_ptr()) }, "peer gone");
        // SAFETY: null is allowed.
        assert_eq!(unsafe { text_at(ptr::null()) }, "");
    }
}
