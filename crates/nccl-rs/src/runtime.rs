//! The NCCL that is found when the program runs.

use cudarc::nccl::sys;

use crate::version::Version;

/// Why NCCL cannot say its version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RuntimeError {
    /// There is no NCCL library where the loader looks.
    #[error("no NCCL library is present (looked for libnccl.so on the loader's path; LD_LIBRARY_PATH adds to it)")]
    NotPresent,
    /// The library refused to say.
    #[error("NCCL did not say its version: code {code}")]
    Refused {
        /// NCCL's result code.
        code: i32,
    },
}

/// The version of the NCCL that is loaded.
///
/// # Errors
/// [`RuntimeError::NotPresent`] on a machine without NCCL.
pub fn runtime_version() -> Result<Version, RuntimeError> {
    // SAFETY: it only tries to open the library and forgets it again; no argument, no precondition.
    if !unsafe { sys::is_culib_present() } {
        return Err(RuntimeError::NotPresent);
    }
    let mut code = 0;
    // SAFETY: the library is present, so the symbol is looked up in it; `code` is a valid place for one int, which is
    // all that ncclGetVersion writes.
    let result = unsafe { sys::ncclGetVersion(&raw mut code) };
    match (result, u32::try_from(code)) {
        (sys::ncclResult_t::ncclSuccess, Ok(code)) => Ok(Version::from_code(code)),
        (result, _) => Err(RuntimeError::Refused { code: result as i32 }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absence_is_an_error_and_not_a_panic() {
        // With NCCL it is a version this crate can use, without it the typed error.
        match runtime_version() {
            Ok(version) => assert!(version.major >= 2, "{version}"),
            Err(error) => assert_eq!(error, RuntimeError::NotPresent),
        }
    }
}
