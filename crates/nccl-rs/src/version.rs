//! NCCL's version numbers.

use std::fmt;

/// A version of NCCL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// Major.
    pub major: u32,
    /// Minor.
    pub minor: u32,
    /// Patch.
    pub patch: u32,
}

impl Version {
    /// From NCCL's code: `major * 10000 + minor * 100 + patch` since 2.9, `major * 1000 + ..` before (`NCCL_VERSION` in
    /// nccl.h).
    ///
    /// ```
    /// use nccl_rs::Version;
    /// assert_eq!(Version::from_code(23004).to_string(), "2.30.4");
    /// assert_eq!(Version::from_code(2708).to_string(), "2.7.8");
    /// ```
    pub const fn from_code(code: u32) -> Self {
        let major = if code < 10_000 { code / 1000 } else { code / 10_000 };
        let rest = if code < 10_000 { code % 1000 } else { code % 10_000 };
        Self { major, minor: rest / 100, patch: rest % 100 }
    }

    /// NCCL's code for it.
    ///
    /// ```
    /// use nccl_rs::Version;
    /// assert_eq!(Version { major: 2, minor: 30, patch: 4 }.code(), 23004);
    /// assert_eq!(Version { major: 2, minor: 7, patch: 8 }.code(), 2708);
    /// ```
    pub const fn code(self) -> u32 {
        let per_major = if self.major < 2 || (self.major == 2 && self.minor <= 8) { 1000 } else { 10_000 };
        self.major * per_major + self.minor * 100 + self.patch
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}
