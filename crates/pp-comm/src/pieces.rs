//! Buffers cut, joined and added.

use std::ops::Range;

use crate::message::{Boundary, Buffer, BufferError, DType};

/// Some of a buffer's elements, in another shape with as many.
pub(crate) fn cut(buffer: &Buffer, elements: Range<usize>, shape: &[usize]) -> Result<Buffer, BufferError> {
    match buffer.boundary().dtype() {
        DType::F32 => Buffer::f32(shape, buffer.as_f32()?[elements].to_vec()),
        DType::F64 => Buffer::f64(shape, buffer.as_f64()?[elements].to_vec()),
        DType::I64 => Buffer::i64(shape, buffer.as_i64()?[elements].to_vec()),
    }
}

/// Buffers one after the other, which together are `whole`.
pub(crate) fn join(parts: &[Buffer], whole: &Boundary) -> Result<Buffer, BufferError> {
    let shape = whole.shape();
    match whole.dtype() {
        DType::F32 => Buffer::f32(shape, views(parts, Buffer::as_f32)?.concat()),
        DType::F64 => Buffer::f64(shape, views(parts, Buffer::as_f64)?.concat()),
        DType::I64 => Buffer::i64(shape, views(parts, Buffer::as_i64)?.concat()),
    }
}

/// The sum of buffers of one boundary, each element from the first buffer to the last: `((a + b) + c) + ..`. Integers
/// wrap. None of nothing.
pub(crate) fn sum(parts: Vec<Buffer>) -> Result<Option<Buffer>, BufferError> {
    let mut parts = parts.into_iter();
    let Some(first) = parts.next() else { return Ok(None) };
    parts.try_fold(first, |sum, part| add(sum, &part)).map(Some)
}

fn add(sum: Buffer, part: &Buffer) -> Result<Buffer, BufferError> {
    let boundary = sum.boundary().clone();
    let shape = boundary.shape();
    match boundary.dtype() {
        DType::F32 => Buffer::f32(shape, added(sum.into_f32()?, part.as_f32()?, |a, b| a + b)),
        DType::F64 => Buffer::f64(shape, added(sum.into_f64()?, part.as_f64()?, |a, b| a + b)),
        DType::I64 => Buffer::i64(shape, added(sum.into_i64()?, part.as_i64()?, i64::wrapping_add)),
    }
}

fn added<T: Copy>(mut sum: Vec<T>, part: &[T], add: impl Fn(T, T) -> T) -> Vec<T> {
    sum.iter_mut().zip(part).for_each(|(sum, &part)| *sum = add(*sum, part));
    sum
}

type View<T> = fn(&Buffer) -> Result<&[T], BufferError>;

fn views<T>(parts: &[Buffer], view: View<T>) -> Result<Vec<&[T]>, BufferError> {
    parts.iter().map(view).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_cut_is_joined() {
        let whole = Buffer::i64(&[2, 3], (0..6).collect()).expect("six elements");
        let parts = [0..4, 4..4, 4..6].map(|range| cut(&whole, range.clone(), &[range.len()]).expect("within it"));
        assert_eq!(join(&parts, whole.boundary()), Ok(whole));
    }

    #[test]
    fn elements_are_added_from_the_first_to_the_last() {
        let of = |values: [f32; 2]| Buffer::f32(&[2], values.to_vec()).expect("two elements");
        let parts = vec![of([1e8, -0.0]), of([-1e8, -0.0]), of([1.0, -0.0])];
        // In any other order the first would be 0; with a zero to start from the second would be +0.
        let sum = sum(parts).expect("of one type").expect("of something");
        assert_eq!(
            sum.as_f32().map(|sum| [sum[0].to_bits(), sum[1].to_bits()]),
            Ok([1.0_f32.to_bits(), (-0.0_f32).to_bits()])
        );
        let of = |value| Buffer::i64(&[], vec![value]).expect("a scalar");
        assert_eq!(super::sum(vec![of(i64::MAX), of(2)]), Ok(Some(of(i64::MIN + 1))));
        assert_eq!(super::sum(vec![]), Ok(None));
    }
}
