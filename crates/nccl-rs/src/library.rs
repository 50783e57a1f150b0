//! The NCCL that is found when the program runs.

use crate::error::NcclError;
use crate::version::Version;

/// The version of the NCCL that is loaded.
///
/// # Errors
/// [`NcclError::NotPresent`] on a machine without NCCL.
pub fn runtime_version() -> Result<Version, NcclError> {
    todo!()
}

/// The same, if it is at least `minimum`.
///
/// # Errors
/// [`NcclError::TooOld`], and as [`runtime_version`].
pub fn require_version(minimum: Version) -> Result<Version, NcclError> {
    todo!("{minimum}")
}
