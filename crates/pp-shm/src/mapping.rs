//! A ring's memory as this process sees it.

use std::os::fd::{AsFd, OwnedFd};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::Ordering;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::process::{Resource, getrlimit};

use crate::error::ShmError;
use crate::layout::{HEADER_BYTES, Header, MAGIC, MAX_CAPACITY, MIN_CAPACITY};

/// Nobody may make the memory smaller, which would kill whoever touches the rest, or larger, or undo that.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// Mapped memory. It stays until the last process that maps it lets go, in whatever way it ends.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    capacity: usize,
}

// SAFETY: the memory is reached only through atomics (`Header`) and through the copies of `ring`, whose callers hold the only
// producer or consumer of this process.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// New memory for a ring of `capacity` bytes, and the descriptor by which another process can map it too. Pages are taken
    /// when they are first touched.
    pub(crate) fn create(capacity: usize) -> Result<(Self, OwnedFd), ShmError> {
        if !capacity.is_power_of_two() || !(MIN_CAPACITY..=MAX_CAPACITY).contains(&capacity) {
            return Err(ShmError::Capacity { capacity });
        }
        let n_bytes = (HEADER_BYTES + capacity) as u64;
        check_limit(n_bytes, getrlimit(Resource::Fsize).current)?;
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = memfd_create("pp-shm", flags).map_err(ShmError::system("make shared memory"))?;
        ftruncate(&fd, n_bytes).map_err(ShmError::system("size shared memory"))?;
        fcntl_add_seals(&fd, SEALS).map_err(ShmError::system("seal shared memory"))?;
        let mapping = Self::map(&fd, capacity)?;
        mapping.header().magic.store(MAGIC, Ordering::Release);
        Ok((mapping, fd))
    }

    /// Maps memory that another process made.
    pub(crate) fn open(fd: &OwnedFd) -> Result<Self, ShmError> {
        let no_ring = |why: &str| ShmError::NotARing { why: why.to_owned() };
        let seals = fcntl_get_seals(fd).map_err(|error| no_ring(&format!("its seals are unknown ({error})")))?;
        if !seals.contains(SEALS) {
            return Err(no_ring("its size is not sealed"));
        }
        // Sealed, the size stays what it is now.
        let n_bytes = fstat(fd).map_err(ShmError::system("look at shared memory"))?.st_size;
        let capacity = usize::try_from(n_bytes).ok().and_then(|n_bytes| n_bytes.checked_sub(HEADER_BYTES));
        let capacity = capacity.filter(|n| n.is_power_of_two() && (MIN_CAPACITY..=MAX_CAPACITY).contains(n));
        let capacity = capacity.ok_or_else(|| no_ring(&format!("it has {n_bytes} bytes")))?;
        let mapping = Self::map(fd, capacity)?;
        if mapping.header().magic.load(Ordering::Acquire) != MAGIC {
            return Err(no_ring("it does not begin as one"));
        }
        Ok(mapping)
    }

    fn map(fd: &OwnedFd, capacity: usize) -> Result<Self, ShmError> {
        let (len, protection) = (HEADER_BYTES + capacity, ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: the kernel chooses a free place, so nothing of this process lies there.
        let base = unsafe { mmap(null_mut(), len, protection, MapFlags::SHARED, fd.as_fd(), 0) };
        let base = base.map_err(ShmError::system("map shared memory"))?;
        let base = NonNull::new(base.cast()).ok_or_else(|| ShmError::NotARing { why: "it maps nowhere".to_owned() })?;
        Ok(Self { base, capacity })
    }

    pub(crate) const fn capacity(&self) -> usize {
        self.capacity
    }

    /// The positions.
    pub(crate) const fn header(&self) -> &Header {
        // SAFETY: the mapping begins on a page, is longer than a header, lives as long as `self`, and all its fields are
        // atomics, for which any bytes are a value.
        unsafe { self.base.cast().as_ref() }
    }

    /// The first of the `capacity` bytes.
    pub(crate) const fn bytes(&self) -> *mut u8 {
        // SAFETY: the mapping has `HEADER_BYTES + capacity` bytes.
        unsafe { self.base.as_ptr().add(HEADER_BYTES) }
    }
}

/// The system does not refuse a larger file, but kills (SIGXFSZ) whoever asks for one.
fn check_limit(n_bytes: u64, limit: Option<u64>) -> Result<(), ShmError> {
    match limit {
        Some(limit) if n_bytes > limit => Err(ShmError::FileLimit { n_bytes, limit }),
        _ => Ok(()),
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and no reference into it outlives `self`. It cannot fail for such a place.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), HEADER_BYTES + self.capacity) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_ring_is_refused() {
        let file = std::fs::File::open("/proc/self/exe").expect("this program");
        let error = Mapping::open(&file.into()).expect_err("a program is no ring");
        assert!(matches!(error, ShmError::NotARing { .. }), "{error}");
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let other = memfd_create("other", flags).expect("a memory file");
        let refused = || Mapping::open(&other).expect_err("no ring").to_string();
        ftruncate(&other, 8192).expect("a small size");
        assert!(refused().contains("not sealed"), "its maker could take it away");
        fcntl_add_seals(&other, SEALS).expect("it may be sealed");
        assert!(refused().contains("does not begin"), "it is all zeros");
        let empty = memfd_create("empty", flags).expect("a memory file");
        fcntl_add_seals(&empty, SEALS).expect("it may be sealed");
        let error = Mapping::open(&empty).expect_err("there is no room for a header");
        assert!(error.to_string().contains("has 0 bytes"), "{error}");
    }

    #[test]
    fn a_ring_has_a_size_that_can_be() {
        for (capacity, nearest) in [(0, MIN_CAPACITY), (5000, 8192), (usize::MAX, MAX_CAPACITY)] {
            let error = Mapping::create(capacity).expect_err("no ring has that size");
            assert!(error.to_string().ends_with(&format!("the nearest is {nearest}")), "{error}");
        }
    }

    /// A limit is a process's, and no other test may have it: this program again, under one.
    #[test]
    fn a_limit_on_files_is_an_error_and_kills_nobody() {
        const UNDER_LIMIT: &str = "PP_SHM_TEST_UNDER_LIMIT";
        if std::env::var_os(UNDER_LIMIT).is_some() {
            let error = Mapping::create(1 << 21).expect_err("51,200 bytes at most");
            assert!(matches!(error, ShmError::FileLimit { limit: 51_200, .. }), "{error}");
            assert!(error.to_string().contains("ulimit -f"), "{error}");
            Mapping::create(MIN_CAPACITY).expect("it is small enough");
            return;
        }
        // POSIX counts in blocks of 512 bytes.
        let again = std::process::Command::new("sh")
            .args([
                "-c",
                "ulimit -f 100 && exec \"$0\" --exact mapping::tests::a_limit_on_files_is_an_error_and_kills_nobody",
            ])
            .arg(std::env::current_exe().expect("this program"))
            .env(UNDER_LIMIT, "1")
            .output()
            .expect("there is a shell");
        assert!(again.status.success(), "{again:?}");
        assert!(String::from_utf8_lossy(&again.stdout).contains("1 passed"), "{again:?}");
        assert!(
            check_limit(10, Some(10)).is_ok() && check_limit(10, None).is_ok() && check_limit(10, Some(9)).is_err()
        );
    }

    #[test]
    fn nobody_can_change_the_size() {
        let (_, fd) = Mapping::create(MIN_CAPACITY).expect("a small ring");
        assert!(ftruncate(&fd, 0).is_err() && ftruncate(&fd, 1 << 20).is_err());
        assert!(fcntl_add_seals(&fd, SealFlags::WRITE).is_err());
    }
}
