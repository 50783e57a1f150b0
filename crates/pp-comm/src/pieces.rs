//! Buffers cut, joined and added.

use std::ops::Range;

use crate::message::{Boundary, Buffer, BufferError, DType};

/// Some of a buffer's elements, in another shape with as many.
pub(crate) fn cut(buffer: &Buffer, elements: Range<usize>, shape: &[usize]) -> Result<Buffer, BufferError> {
    match buffer.boundary().dtype() {
        DType::F32 => Buffer::f32(shape, buffer.as_f32()?[elements].to_vec()),
        DType::F64 => Buffer::f64(shape, buffer.as_f64()?[elements].to_vec()),
        DType::I64 => Buffer::i64(shape, buffer.as_i64()?[elements].to_vec()),
        DType::Bf16 => Buffer::bf16(shape, buffer.as_bf16()?[elements].to_vec()),
    }
}

/// Buffers one after the other, which together are `whole`.
pub(crate) fn join(parts: &[Buffer], whole: &Boundary) -> Result<Buffer, BufferError> {
    let shape = whole.shape();
    match whole.dtype() {
        DType::F32 => Buffer::f32(shape, views(parts, Buffer::as_f32)?.concat()),
        DType::F64 => Buffer::f64(shape, views(parts, Buffer::as_f64)?.concat()),
        DType::I64 => Buffer::i64(shape, views(parts, Buffer::as_i64)?.concat()),
        DType::Bf16 => Buffer::bf16(shape, views(parts, Buffer::as_bf16)?.concat()),
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
        DType::Bf16 => Buffer::bf16(shape, added(sum.into_bf16()?, part.as_bf16()?, added_bf16)),
    }
}

/// The sum of two brain floats, rounded to the nearest one, of two as near to the even one.
fn added_bf16(a: u16, b: u16) -> u16 {
    let of_bits = |bits: u16| f32::from_bits(u32::from(bits) << 16);
    let sum = of_bits(a) + of_bits(b);
    let bits = sum.to_bits();
    if sum.is_nan() {
        // Cut off, what makes it no number may be lost.
        return (bits >> 16) as u16 | 1 << 6;
    }
    // Beyond the largest number this carries over into infinity, as it should.
    ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
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

    #[test]
    fn brain_floats_are_rounded_to_the_nearest_after_every_addition() {
        let of = |value: f32| (value.to_bits() >> 16) as u16;
        // The step above 1 is 2^-7: half of it goes to the even one, below for 1, above for the next.
        for (a, b, sum) in [(1.0, 0.00390625, 1.0), (1.0078125, 0.00390625, 1.015625), (1.0, 0.005859375, 1.0078125)] {
            assert_eq!(added_bf16(of(a), of(b)), of(sum), "{a} + {b}");
        }
        let (most, infinity) = (0x7f7f, of(f32::INFINITY));
        assert_eq!(added_bf16(most, most), infinity);
        assert!(f32::from_bits(u32::from(added_bf16(infinity, infinity | 0x8000)) << 16).is_nan());
        assert!(f32::from_bits(u32::from(added_bf16(0x7f81, 0)) << 16).is_nan());
        let [a, b] = [[of(2.0), of(-3.5)], [of(0.5), of(3.5)]].map(|v| Buffer::bf16(&[2], v.to_vec()).expect("two"));
        assert_eq!(super::sum(vec![a, b]), Ok(Some(Buffer::bf16(&[2], vec![of(2.5), 0]).expect("two"))));
    }
}
