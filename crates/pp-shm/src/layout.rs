//! What lies where in a ring's memory: a page of positions, then the bytes.

use std::sync::atomic::{AtomicU32, AtomicU64};

/// The least bytes a ring may hold.
pub const MIN_CAPACITY: usize = 4096;

/// The most bytes a ring may hold (1 GiB).
pub const MAX_CAPACITY: usize = 1 << 30;

/// Where the bytes begin.
pub(crate) const HEADER_BYTES: usize = 4096;

/// Marks a ring of this layout.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"PPSHM\0\0\x01");

/// The positions. Everything is atomic: the other process may write anywhere at any time.
///
/// What one side writes in passing has a pair of cache lines of its own (processors fetch them by twos).
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Header {
    pub(crate) magic: AtomicU64,
    pub(crate) written: Line<AtomicU64>,
    pub(crate) read: Line<Taken>,
    pub(crate) producer: Line<Parking>,
    pub(crate) consumer: Line<Parking>,
}

/// A pair of cache lines.
#[repr(C, align(128))]
#[derive(Debug)]
pub(crate) struct Line<T>(pub(crate) T);

/// What the consumer says.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Taken {
    /// Bytes read since the beginning.
    pub(crate) bytes: AtomicU64,
    /// Messages asked for since the beginning.
    pub(crate) grants: AtomicU64,
}

/// Where a side waits.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Parking {
    /// Changes with every call.
    pub(crate) calls: AtomicU32,
    /// Whether anybody may be asleep: only then is a call worth a system call.
    pub(crate) occupied: AtomicU32,
}

const _: () = assert!(size_of::<Header>() <= HEADER_BYTES);
