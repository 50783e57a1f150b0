//! Copies between shared memory and memory of this process.
//!
//! The other process may write while we read, which an ordinary copy must not meet: to the compiler it would be a data race. So
//! the shared side is touched in two ways only, for which the bytes may be wrong but the copy is defined: by relaxed atomic
//! operations, a word at a time where it is aligned; and, for long copies on processors that are fast at it, by their own copy
//! instruction, into which the compiler does not look.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

/// Copies below this are done by words: the processor's copy instruction takes long to begin.
const LONG: usize = 2048;

/// Bytes of a word.
const WORD: usize = 8;

/// Words copied in one turn of the loop.
const UNROLL: usize = 8;

/// Splits a copy of `len` bytes at a shared address into bytes before the first whole word, whole words, and bytes after.
fn split(shared: *mut u8, len: usize) -> (usize, usize, usize) {
    let before = shared.align_offset(WORD).min(len);
    let words = (len - before) / WORD;
    (before, words, len - before - words * WORD)
}

/// A copy of so many bytes from one place to another, which do not overlap; what other processes do to them meanwhile is of no
/// matter.
type Copy = unsafe fn(*const u8, *mut u8, usize);

/// The copy instruction of a processor on which it is as fast as its vector instructions.
#[cfg(target_arch = "x86_64")]
fn fast_copy() -> Option<Copy> {
    unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
        // SAFETY: it touches the two times `len` bytes that the caller vouches for, forwards (the direction flag is clear in
        // every function), and the three registers that are named.
        unsafe {
            std::arch::asm!(
                "rep movsb", inout("rcx") len => _, inout("rsi") from => _, inout("rdi") to => _,
                options(nostack, preserves_flags)
            );
        }
    }
    std::arch::is_x86_feature_detected!("ermsb").then_some(copy as Copy)
}

#[cfg(not(target_arch = "x86_64"))]
const fn fast_copy() -> Option<Copy> {
    None
}

/// Copies `len` bytes out of shared memory.
///
/// # Safety
/// `shared` must be valid for reads and writes of `len` bytes of shared memory that this process touches by atomics only;
/// `own` must be valid for writes of `len` bytes that nobody else touches.
pub(crate) unsafe fn out_of(shared: *mut u8, own: *mut u8, len: usize) {
    if len >= LONG
        && let Some(copy) = fast_copy()
    {
        // SAFETY: as the caller vouches.
        return unsafe { copy(shared, own, len) };
    }
    let (before, words, after) = split(shared, len);
    // SAFETY: all places are within the `len` bytes that the caller vouches for; the shared words are aligned by `split`, and
    // writes to own memory need no alignment.
    unsafe {
        for index in 0..before {
            own.add(index).write(AtomicU8::from_ptr(shared.add(index)).load(Relaxed));
        }
        let (from, to) = (shared.add(before).cast::<u64>(), own.add(before).cast::<u64>());
        let whole = words / UNROLL * UNROLL;
        for first in (0..whole).step_by(UNROLL) {
            let read: [u64; UNROLL] =
                std::array::from_fn(|index| AtomicU64::from_ptr(from.add(first + index)).load(Relaxed));
            to.add(first).cast::<[u64; UNROLL]>().write_unaligned(read);
        }
        for index in whole..words {
            to.add(index).write_unaligned(AtomicU64::from_ptr(from.add(index)).load(Relaxed));
        }
        let (from, to) = (shared.add(before + words * WORD), own.add(before + words * WORD));
        for index in 0..after {
            to.add(index).write(AtomicU8::from_ptr(from.add(index)).load(Relaxed));
        }
    }
}

/// Copies `len` bytes into shared memory.
///
/// # Safety
/// As [`out_of`], but `own` must be valid for reads of `len` bytes that nobody writes.
pub(crate) unsafe fn into(shared: *mut u8, own: *const u8, len: usize) {
    if len >= LONG
        && let Some(copy) = fast_copy()
    {
        // SAFETY: as the caller vouches.
        return unsafe { copy(own, shared, len) };
    }
    let (before, words, after) = split(shared, len);
    // SAFETY: as in `out_of`.
    unsafe {
        for index in 0..before {
            AtomicU8::from_ptr(shared.add(index)).store(own.add(index).read(), Relaxed);
        }
        let (to, from) = (shared.add(before).cast::<u64>(), own.add(before).cast::<u64>());
        let whole = words / UNROLL * UNROLL;
        for first in (0..whole).step_by(UNROLL) {
            let read = from.add(first).cast::<[u64; UNROLL]>().read_unaligned();
            for (index, word) in read.into_iter().enumerate() {
                AtomicU64::from_ptr(to.add(first + index)).store(word, Relaxed);
            }
        }
        for index in whole..words {
            AtomicU64::from_ptr(to.add(index)).store(from.add(index).read_unaligned(), Relaxed);
        }
        let (to, from) = (shared.add(before + words * WORD), own.add(before + words * WORD));
        for index in 0..after {
            AtomicU8::from_ptr(to.add(index)).store(from.add(index).read(), Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Copies in and out again at an offset of either side; everything else must stay as it was.
    fn check(offset: usize, own: usize, len: usize) {
        let source: Vec<u8> = (0..own + len).map(|index| (index % 251) as u8 ^ 0x5a).collect();
        let mut shared = vec![0_u64; (offset + len) / 8 + 2];
        let place = shared.as_mut_ptr().cast::<u8>().wrapping_add(offset);
        let mut back = vec![1_u8; own + len + 5];
        // SAFETY: the vectors are longer than what is copied, and no other thread knows of them.
        unsafe {
            into(place, source.as_ptr().add(own), len);
            out_of(place, back.as_mut_ptr().add(own), len);
        }
        assert_eq!(back[own..own + len], source[own..own + len], "{offset} {own} {len}");
        assert!(back[..own].iter().chain(&back[own + len..]).all(|&byte| byte == 1));
        let bytes: Vec<u8> = shared.iter().flat_map(|word| word.to_ne_bytes()).collect();
        assert!(bytes[..offset].iter().chain(&bytes[offset + len..]).all(|&byte| byte == 0));
    }

    #[test]
    fn every_offset_and_length_is_copied_and_nothing_else() {
        let lengths = || (0..150).chain(LONG - 20..LONG + 20);
        for (offset, own) in (0..9).flat_map(|offset| (0..5).map(move |own| (offset, own))) {
            lengths().for_each(|len| check(offset, own, len));
        }
    }
}
