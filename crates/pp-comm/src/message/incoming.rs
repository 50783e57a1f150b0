//! A buffer that is being received: memory without values until the bytes are there.

use std::mem::MaybeUninit;

use pp_shm::Filling;

use super::boundary::{Boundary, BufferError, DType};
use super::buffer::{Buffer, Data};

/// The elements, as far as they have come.
#[derive(Debug)]
enum Elements {
    F32(Filling<f32>),
    F64(Filling<f64>),
    I64(Filling<i64>),
    Bf16(Filling<u16>),
}

/// Does the same with every type of elements.
macro_rules! each {
    ($elements:expr, $filling:ident => $body:expr) => {
        match $elements {
            Elements::F32($filling) => $body,
            Elements::F64($filling) => $body,
            Elements::I64($filling) => $body,
            Elements::Bf16($filling) => $body,
        }
    };
}

/// A buffer on its way in.
#[derive(Debug)]
pub(crate) struct Incoming {
    boundary: Boundary,
    elements: Elements,
}

impl Incoming {
    /// Memory for a message of that contract: that of a buffer which is given up for it, or new memory.
    ///
    /// # Errors
    /// [`BufferError::Allocation`].
    pub(crate) fn new(boundary: &Boundary, memory: Option<Buffer>) -> Result<Self, BufferError> {
        let len = boundary.n_elements();
        let elements = match (boundary.dtype(), memory.map(Buffer::into_data)) {
            (DType::F32, Some(Data::F32(vec))) => Filling::new(vec, len).map(Elements::F32),
            (DType::F64, Some(Data::F64(vec))) => Filling::new(vec, len).map(Elements::F64),
            (DType::I64, Some(Data::I64(vec))) => Filling::new(vec, len).map(Elements::I64),
            (DType::Bf16, Some(Data::Bf16(vec))) => Filling::new(vec, len).map(Elements::Bf16),
            (DType::F32, _) => Filling::new(Vec::new(), len).map(Elements::F32),
            (DType::F64, _) => Filling::new(Vec::new(), len).map(Elements::F64),
            (DType::I64, _) => Filling::new(Vec::new(), len).map(Elements::I64),
            (DType::Bf16, _) => Filling::new(Vec::new(), len).map(Elements::Bf16),
        };
        match elements {
            Ok(elements) => Ok(Self { boundary: boundary.clone(), elements }),
            Err(_) => Err(BufferError::Allocation { boundary: boundary.clone() }),
        }
    }

    /// Whether all bytes have come.
    pub(crate) const fn is_full(&self) -> bool {
        each!(&self.elements, filling => filling.missing() == 0)
    }

    /// Has `read` fill some of what is missing, from the front; gives how many bytes it filled.
    pub(crate) fn fill<E>(
        &mut self,
        read: impl for<'a> FnOnce(&'a mut [MaybeUninit<u8>]) -> Result<&'a mut [u8], E>,
    ) -> Result<usize, E> {
        each!(&mut self.elements, filling => filling.fill(read))
    }

    /// The buffer, if it is complete.
    pub(crate) fn finish(self) -> Option<Buffer> {
        let data = match self.elements {
            Elements::F32(filling) => Data::F32(filling.finish()?),
            Elements::F64(filling) => Data::F64(filling.finish()?),
            Elements::I64(filling) => Data::I64(filling.finish()?),
            Elements::Bf16(filling) => Data::Bf16(filling.finish()?),
        };
        Some(Buffer::of(self.boundary, data))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_in_pieces_make_the_buffer_in_the_memory_it_was_given() {
        let sent = Buffer::f64(&[3, 2], vec![1.5, -0.0, f64::INFINITY, 1e-310, 7.0, -2.0]).expect("six elements");
        for piece in [1, 5, 8, 48] {
            let given = Buffer::f64(&[6], vec![0.0; 6]).expect("six elements");
            let bytes = |buffer: &Buffer| buffer.as_bytes().expect("on the host").to_vec();
            let place = given.as_bytes().expect("on the host").as_ptr();
            let mut incoming = Incoming::new(sent.boundary(), Some(given)).expect("it has the memory");
            for part in bytes(&sent).chunks(piece) {
                assert!(!incoming.is_full());
                let filled = incoming.fill(|room| Ok::<_, ()>(room[..part.len()].write_copy_of_slice(part)));
                assert_eq!(filled, Ok(part.len()));
            }
            let received = incoming.finish().expect("it is full");
            assert_eq!((bytes(&received), received.boundary()), (bytes(&sent), sent.boundary()));
            assert_eq!(received.as_bytes().expect("on the host").as_ptr(), place);
        }
        assert!(Incoming::new(sent.boundary(), None).expect("little memory").finish().is_none());
        let empty = Boundary::new(DType::I64, &[0, 4]).expect("a small shape");
        assert_eq!(Incoming::new(&empty, None).expect("no memory").finish(), Buffer::i64(&[0, 4], vec![]).ok());
    }
}
