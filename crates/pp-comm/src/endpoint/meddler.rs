//! What a rehearsed failure does to the messages of one endpoint.

use super::faults::{Fault, Place, What};
use crate::message::{Boundary, Buffer, BufferError, DType};

/// What is done to the sends of one endpoint.
#[derive(Debug, Default)]
pub(super) struct Meddler {
    fault: Option<(What, u64)>,
    n_sends: u64,
}

/// What becomes of a send.
#[derive(Debug)]
pub(super) enum Meddled {
    /// It leaves, perhaps changed.
    Sent(Buffer),
    /// It leaves twice.
    Twice(Buffer),
    /// It does not leave.
    Lost(Buffer),
}

impl Meddler {
    pub(super) fn new(fault: Fault) -> Self {
        let fault = match fault.place {
            Place::Send { send, .. } => Some((fault.what, send)),
            _ => None,
        };
        Self { fault, n_sends: 0 }
    }

    /// Whether the send that something is to be done to has not come yet.
    pub(super) fn is_left(&self) -> bool {
        self.fault.is_some_and(|(_, send)| send > self.n_sends)
    }

    /// Takes the next send.
    pub(super) fn meddle(&mut self, buffer: Buffer) -> Result<Meddled, BufferError> {
        self.n_sends += 1;
        let fault = self.fault.filter(|&(_, send)| send == self.n_sends);
        Ok(match fault {
            None => Meddled::Sent(buffer),
            Some((What::Drop, _)) => Meddled::Lost(buffer),
            Some((What::Duplicate, _)) => Meddled::Twice(buffer),
            Some((What::Shorten, _)) => Meddled::Sent(zeros(&shorter(buffer.boundary())?)?),
            Some((What::Mistype, _)) => Meddled::Sent(zeros(&mistyped(buffer.boundary())?)?),
            Some((what, _)) => {
                std::thread::sleep(what.time().unwrap_or_default());
                Meddled::Sent(buffer)
            }
        })
    }
}

fn zeros(boundary: &Boundary) -> Result<Buffer, BufferError> {
    let (shape, len) = (boundary.shape(), boundary.n_elements());
    match boundary.dtype() {
        DType::F32 => Buffer::f32(shape, vec![0.0; len]),
        DType::F64 => Buffer::f64(shape, vec![0.0; len]),
        DType::I64 => Buffer::i64(shape, vec![0; len]),
        DType::Bf16 => Buffer::bf16(shape, vec![0; len]),
    }
}

/// With one less in the innermost dimension that has any.
fn shorter(boundary: &Boundary) -> Result<Boundary, BufferError> {
    let mut shape = boundary.shape().to_vec();
    match shape.iter_mut().rev().find(|dim| **dim > 0) {
        Some(dim) => *dim -= 1,
        // A scalar has no dimension to take from.
        None => shape.push(0),
    }
    Boundary::new(boundary.dtype(), &shape)
}

fn mistyped(boundary: &Boundary) -> Result<Boundary, BufferError> {
    let dtype = match boundary.dtype() {
        DType::F32 => DType::F64,
        DType::F64 => DType::I64,
        DType::I64 => DType::Bf16,
        DType::Bf16 => DType::F32,
    };
    Boundary::new(dtype, boundary.shape())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shorter_or_mistyped_is_another_boundary() {
        for shape in [&[][..], &[3], &[2, 0], &[0]] {
            let boundary = Boundary::new(DType::F32, shape).unwrap();
            assert_ne!(shorter(&boundary).unwrap(), boundary);
            assert_ne!(mistyped(&boundary).unwrap().dtype(), DType::F32);
        }
    }
}
