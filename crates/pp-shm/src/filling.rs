//! Vectors that bytes are received into without being zeroed first.

use std::collections::TryReserveError;
use std::mem::MaybeUninit;

use bytemuck::AnyBitPattern;

/// A vector on its way to its full length, filled by bytes that come in pieces of any size.
///
/// Zeroing 16 MiB only to overwrite them costs as much as copying them; a `Vec` cannot be extended by half an element.
///
/// ```
/// use pp_shm::Filling;
/// let mut filling = Filling::<u16>::new(Vec::new(), 2)?;
/// for piece in [[1_u8].as_slice(), &[0, 2, 0]] {
///     filling.fill(|room| Ok::<_, ()>(room[..piece.len()].write_copy_of_slice(piece))).unwrap();
/// }
/// assert!(filling.is_full());
/// assert_eq!(filling.finish(), Some(vec![u16::from_le(1), u16::from_le(2)]));
/// # Ok::<(), std::collections::TryReserveError>(())
/// ```
#[derive(Debug)]
pub struct Filling<T> {
    /// Empty, with room for `len` elements.
    vec: Vec<T>,
    len: usize,
    /// Bytes of the vector's memory that are filled.
    filled: usize,
}

impl<T: AnyBitPattern> Filling<T> {
    /// Begins with the memory of a vector, whose elements are dropped, and room for `len` elements.
    ///
    /// # Errors
    /// When there is no memory for them.
    pub fn new(mut vec: Vec<T>, len: usize) -> Result<Self, TryReserveError> {
        vec.clear();
        vec.try_reserve_exact(len)?;
        Ok(Self { vec, len, filled: 0 })
    }

    /// Bytes that are missing.
    pub const fn missing(&self) -> usize {
        self.len * size_of::<T>() - self.filled
    }

    /// Whether nothing is missing.
    pub const fn is_full(&self) -> bool {
        self.missing() == 0
    }

    /// Has `read` fill some bytes from the front of what is missing; gives how many it filled.
    ///
    /// # Errors
    /// What `read` fails with.
    pub fn fill<E>(
        &mut self,
        read: impl for<'a> FnOnce(&'a mut [MaybeUninit<u8>]) -> Result<&'a mut [u8], E>,
    ) -> Result<usize, E> {
        let (filled, missing) = (self.filled, self.missing());
        // SAFETY: the vector has room for `len` elements, so `filled + missing` bytes; what lies beyond its length, which is
        // 0, belongs to nobody else while it is borrowed here, and may be uninitialised.
        let room = unsafe {
            let first = self.vec.as_mut_ptr().cast::<MaybeUninit<u8>>().add(filled);
            std::slice::from_raw_parts_mut(first, missing)
        };
        let first = room.as_ptr().cast::<u8>();
        let done = read(room)?;
        // Only what was filled from the front counts.
        let n = if done.as_ptr() == first { done.len().min(missing) } else { 0 };
        self.filled += n;
        Ok(n)
    }

    /// The elements, if it is full.
    pub fn as_full(&self) -> Option<&[T]> {
        if !self.is_full() {
            return None;
        }
        // SAFETY: as in `finish`; the vector is borrowed as long as the slice.
        Some(unsafe { std::slice::from_raw_parts(self.vec.as_ptr(), self.len) })
    }

    /// Begins anew in the same memory.
    pub const fn restart(&mut self) {
        self.filled = 0;
    }

    /// The vector, if it is full.
    pub fn finish(mut self) -> Option<Vec<T>> {
        if !self.is_full() {
            return None;
        }
        // SAFETY: there is room for `len` elements, and all their bytes are filled: `fill` counts only bytes for which it was
        // given a `&mut [u8]`, which is initialised memory. Any bytes are a value of `T`.
        unsafe { self.vec.set_len(self.len) };
        Some(self.vec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_every_size_make_the_vector_and_its_memory_is_kept() {
        let data: Vec<f64> = (0..50).map(f64::from).collect();
        let bytes: &[u8] = bytemuck::cast_slice(&data);
        let mut vec = Vec::new();
        for piece in 1..=bytes.len() {
            let mut filling = Filling::<f64>::new(vec, data.len()).expect("little memory");
            for part in bytes.chunks(piece) {
                assert!(!filling.is_full());
                let n = filling.fill(|room| Ok::<_, ()>(room[..part.len()].write_copy_of_slice(part)));
                assert_eq!(n, Ok(part.len()));
            }
            vec = filling.finish().expect("it is full");
            assert_eq!(vec, data);
        }
        let place = vec.as_ptr();
        let mut filling = Filling::<f64>::new(vec, data.len()).expect("no more memory than before");
        assert_eq!(filling.as_full(), None);
        assert_eq!(filling.fill(|room| Ok::<_, ()>(room.write_copy_of_slice(bytes))), Ok(400));
        assert_eq!(filling.as_full(), Some(data.as_slice()));
        filling.restart();
        assert_eq!((filling.missing(), filling.as_full()), (400, None));
        let vec = filling.vec;
        let filling = Filling::<f64>::new(vec, data.len()).expect("no more memory than before");
        assert_eq!(filling.vec.as_ptr(), place);
        assert_eq!(filling.finish(), None);
    }

    #[test]
    fn what_was_filled_elsewhere_does_not_count() {
        let mut filling = Filling::<u8>::new(Vec::new(), 4).expect("little memory");
        assert_eq!(filling.fill(|_| Ok::<_, ()>(Box::leak(Box::new([1_u8; 4])))), Ok(0));
        assert_eq!(filling.fill(|room| Ok::<_, ()>(room[1..].write_copy_of_slice(&[1; 3]))), Ok(0));
        assert!(!filling.is_full());
        assert!(Filling::<u64>::new(Vec::new(), usize::MAX / 8).is_err());
    }
}
