//! The bytes of an allocation.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::written::Written;

/// What fresh memory holds: not a number, as a float of any type.
const POISON: u8 = 0xff;

/// The bytes of an allocation. Work of several streams may use them at once, in error or not: each access is whole.
#[derive(Debug)]
pub(super) struct Bytes {
    n_bytes: usize,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    storage: Storage,
    written: Written,
}

#[derive(Debug)]
enum Storage {
    /// Not touched yet: poison.
    Fresh,
    Device(Box<[u8]>),
    Host(Block),
    Gone,
}

/// Why bytes could not be used.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NoBytes {
    /// The free has happened already.
    Freed,
    /// This one was never written.
    Uninitialised(usize),
}

impl Bytes {
    /// Of a device's memory.
    pub(super) fn of_device(n_bytes: usize) -> Self {
        Self::new(n_bytes, Storage::Fresh)
    }

    /// Of the host's memory, to which the program under test writes as it likes. `None` where there is no more.
    pub(super) fn of_host(n_bytes: usize) -> Option<(Self, u64)> {
        let block = Block::new(n_bytes)?;
        let address = block.start.as_ptr().expose_provenance() as u64;
        Some((Self::new(n_bytes, Storage::Host(block)), address))
    }

    fn new(n_bytes: usize, storage: Storage) -> Self {
        Self { n_bytes, inner: Mutex::new(Inner { storage, written: Written::default() }) }
    }

    pub(super) const fn len(&self) -> usize {
        self.n_bytes
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A copy of a range, which must lie within.
    pub(super) fn read(&self, range: Range<usize>) -> Result<Vec<u8>, NoBytes> {
        let inner = self.lock();
        match &inner.storage {
            Storage::Gone => Err(NoBytes::Freed),
            Storage::Host(block) => Ok(block.read(range)),
            storage => {
                if let Some(at) = inner.written.first_missing(&range) {
                    return Err(NoBytes::Uninitialised(at));
                }
                Ok(match storage {
                    Storage::Device(bytes) => bytes[range].to_vec(),
                    _ => Vec::new(),
                })
            }
        }
    }

    /// Writes from `start` on; must end within.
    pub(super) fn write(&self, start: usize, new: &[u8]) -> Result<(), NoBytes> {
        let mut inner = self.lock();
        let Inner { storage, written } = &mut *inner;
        if matches!(storage, Storage::Fresh) {
            *storage = Storage::Device(vec![POISON; self.n_bytes].into_boxed_slice());
        }
        match storage {
            Storage::Fresh | Storage::Gone => return Err(NoBytes::Freed),
            Storage::Device(bytes) => bytes[start..start + new.len()].copy_from_slice(new),
            Storage::Host(block) => block.write(start, new),
        }
        written.add(start..start + new.len());
        Ok(())
    }

    /// They are no more.
    pub(super) fn free(&self) {
        self.lock().storage = Storage::Gone;
    }
}

/// A block of the host's memory, whose address the program under test has.
#[derive(Debug)]
struct Block {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the block is owned by this alone: it is freed once, by `drop`, from whatever thread. Its bytes are only touched
// through `read` and `write` here (which `Bytes` lets one thread do at a time) and by the program under test, which has to
// leave them alone while copies of them are under way, as with CUDA's pinned memory.
unsafe impl Send for Block {}

impl Block {
    fn new(n_bytes: usize) -> Option<Self> {
        let layout = Layout::from_size_align(n_bytes.max(1), 4096).ok()?;
        // SAFETY: the layout's size is at least one.
        let start = unsafe { alloc_zeroed(layout) };
        Some(Self { start: NonNull::new(start)?, layout })
    }

    fn check(&self, start: usize, n_bytes: usize) {
        assert!(start.checked_add(n_bytes).is_some_and(|end| end <= self.layout.size()), "outside a block of the host");
    }

    fn read(&self, range: Range<usize>) -> Vec<u8> {
        self.check(range.start, range.len());
        let mut bytes = vec![0; range.len()];
        // SAFETY: `check` says that the source lies in the block, which lives as long as `self`; it was zeroed when made, so
        // all of it is initialised. The destination was made here, so the two do not overlap. No reference to the source is
        // made, as the program under test has pointers to it.
        unsafe { std::ptr::copy_nonoverlapping(self.start.as_ptr().add(range.start), bytes.as_mut_ptr(), bytes.len()) };
        bytes
    }

    fn write(&self, start: usize, new: &[u8]) {
        self.check(start, new.len());
        // SAFETY: `check` says that the destination lies in the block, which lives as long as `self`. `new` is a copy that
        // the emulator made, so it does not overlap the block. No reference to the destination is made, as above.
        unsafe { std::ptr::copy_nonoverlapping(new.as_ptr(), self.start.as_ptr().add(start), new.len()) };
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: `start` came from `alloc_zeroed` with this very layout in `new`, and is freed here only.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}
