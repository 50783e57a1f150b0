//! A part of memory on a GPU.

use std::ops::Range;

use crate::error::NcclError;
use crate::memory::{DeviceMemory, Shared};
use crate::stream::Stream;

/// Some of the bytes of a piece of memory, which it keeps alive: to send from the middle of a buffer, or to receive into it.
#[derive(Clone, Debug)]
pub struct DevicePart {
    whole: Shared,
    start: u64,
    n_bytes: usize,
}

impl DevicePart {
    /// The bytes of that range.
    ///
    /// # Errors
    /// [`NcclError::Misuse`] for a range that is not within the memory.
    pub fn new(whole: Shared, bytes: Range<usize>) -> Result<Self, NcclError> {
        let n_bytes = whole.n_bytes();
        if bytes.start > bytes.end || bytes.end > n_bytes {
            let reason = format!("bytes {bytes:?} are asked for, but the memory has {n_bytes}");
            return Err(NcclError::Misuse { call: "DevicePart::new", reason });
        }
        let start = whole.address() + bytes.start as u64;
        Ok(Self { whole, start, n_bytes: bytes.len() })
    }

    /// The memory that it is a part of.
    pub const fn whole(&self) -> &Shared {
        &self.whole
    }
}

// SAFETY: `new` made sure that the range lies within `whole`, which is allocated there, and stays there, for as long as it lives;
// this holds it, and nothing gives out a way to replace it. When this is dropped, so is its hold on `whole`: if that was the last
// one, the memory is given up by `whole`'s own drop, by the rule that `whole` keeps; if not, it is not given up at all.
unsafe impl DeviceMemory for DevicePart {
    fn address(&self) -> u64 {
        self.start
    }

    fn n_bytes(&self) -> usize {
        self.n_bytes
    }

    fn freed_on(&self) -> Option<Stream> {
        self.whole.freed_on()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// Memory at an address that nothing reads or writes.
    #[derive(Debug)]
    struct Somewhere;

    // SAFETY: no operation is ever given it.
    unsafe impl DeviceMemory for Somewhere {
        fn address(&self) -> u64 {
            0x1000
        }

        fn n_bytes(&self) -> usize {
            64
        }
    }

    #[test]
    fn a_part_lies_within_its_whole_or_is_refused() {
        let whole: Shared = Arc::new(Somewhere);
        let part = |bytes| DevicePart::new(Arc::clone(&whole), bytes).map(|part| (part.address(), part.n_bytes()));
        assert_eq!(part(0..64), Ok((0x1000, 64)));
        assert_eq!(part(8..24), Ok((0x1008, 16)));
        assert_eq!(part(64..64), Ok((0x1040, 0)));
        #[expect(clippy::reversed_empty_ranges, reason = "it is what must be refused")]
        let wrong = [0..65, 65..65, 9..8];
        for bytes in wrong {
            let error = part(bytes.clone()).expect_err("not within it").to_string();
            assert!(error.contains(&format!("{bytes:?}")) && error.contains("64"), "{error}");
        }
    }
}
