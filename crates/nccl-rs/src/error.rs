//! What can go wrong.

use std::time::Duration;

use crate::version::Version;

/// Why something did not work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NcclError {
    /// There is no NCCL library where the loader looks.
    #[error("no NCCL library is present (looked for {looked_for}; LD_LIBRARY_PATH adds to where the loader looks)")]
    NotPresent {
        /// The names tried.
        looked_for: String,
    },
    /// There is no such library where the loader looks.
    #[error("{name} cannot be opened ({reason}); LD_LIBRARY_PATH adds to where the loader looks")]
    NoLibrary {
        /// Its name.
        name: &'static str,
        /// What the loader says.
        reason: String,
    },
    /// There is no CUDA driver where the loader looks.
    #[error("no CUDA driver is present (looked for libcuda.so and libcuda.so.1)")]
    NoDriver,
    /// The CUDA driver that was found lacks a function: it is older than CUDA 11.2, or not a driver.
    #[error("the CUDA driver that was found has no {name}")]
    MissingDriverSymbol {
        /// The function.
        name: &'static str,
    },
    /// The NCCL that was found lacks a function.
    #[error("the NCCL library that was found has no {name}")]
    MissingSymbol {
        /// The function.
        name: &'static str,
    },
    /// The NCCL that was found is too old.
    #[error("NCCL {found} was found, but at least {minimum} is needed")]
    TooOld {
        /// What was found.
        found: Version,
        /// What is needed.
        minimum: Version,
    },
    /// NCCL said no.
    #[error("{call}: NCCL error {code} ({text}){}", if last.is_empty() { String::new() } else { format!(": {last}") })]
    Nccl {
        /// The function.
        call: &'static str,
        /// NCCL's result code.
        code: i32,
        /// What NCCL calls that code.
        text: String,
        /// What NCCL says of its last error, empty where it says nothing.
        last: String,
    },
    /// The CUDA driver said no.
    #[error("{call}: CUDA error {code} ({text})")]
    Cuda {
        /// The function.
        call: &'static str,
        /// The driver's result code.
        code: u32,
        /// What the driver calls that code.
        text: String,
    },
    /// It took too long.
    #[error("{call} is not done after {limit:?}")]
    Deadline {
        /// What was waited for.
        call: &'static str,
        /// How long.
        limit: Duration,
    },
    /// The communicator was aborted.
    #[error("{call}: the communicator was aborted")]
    Aborted {
        /// What was asked of it.
        call: &'static str,
    },
    /// The caller asked for what cannot be: a peer that does not exist, a buffer too small, an uneven count.
    #[error("{call}: {reason}")]
    Misuse {
        /// The function.
        call: &'static str,
        /// What is wrong.
        reason: String,
    },
}
