//! What can go wrong with shared memory.

use std::io;

use crate::layout::{MAX_CAPACITY, MIN_CAPACITY};

/// Why there is no ring, or why it can no longer be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ShmError {
    /// A size no ring may have.
    #[error(
        "a ring of {capacity} bytes is asked for, but it must be a power of two from {MIN_CAPACITY} to {MAX_CAPACITY}; the \
         nearest is {}", nearest(*capacity)
    )]
    Capacity {
        /// The size.
        capacity: usize,
    },
    /// More memory than this process may put into a file, as which shared memory counts.
    #[error(
        "a ring takes {n_bytes} bytes, but this process may make files of at most {limit} (RLIMIT_FSIZE, `ulimit -f`), and \
         shared memory counts as one"
    )]
    FileLimit {
        /// What the ring takes.
        n_bytes: u64,
        /// What is allowed.
        limit: u64,
    },
    /// A descriptor that is no ring.
    #[error("the memory that was handed over is no ring: {why}")]
    NotARing {
        /// What is wrong with it.
        why: String,
    },
    /// The other side wrote positions that cannot be.
    #[error(
        "the ring is corrupt: {written} bytes were written and {read} read by its own account, in a ring of {capacity}"
    )]
    Corrupt {
        /// The producer's position.
        written: u64,
        /// The consumer's position.
        read: u64,
        /// Bytes that the ring holds.
        capacity: u64,
    },
    /// The system refused something.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl ShmError {
    pub(crate) fn system<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::System { what, source: source.into() }
    }
}

impl From<ShmError> for io::Error {
    fn from(error: ShmError) -> Self {
        let kind = match &error {
            ShmError::Capacity { .. } => io::ErrorKind::InvalidInput,
            ShmError::FileLimit { .. } => io::ErrorKind::FileTooLarge,
            ShmError::NotARing { .. } | ShmError::Corrupt { .. } => io::ErrorKind::InvalidData,
            ShmError::System { source, .. } => source.kind(),
        };
        Self::new(kind, error)
    }
}

fn nearest(capacity: usize) -> usize {
    let above = capacity.checked_next_power_of_two().unwrap_or(MAX_CAPACITY);
    above.clamp(MIN_CAPACITY, MAX_CAPACITY)
}
