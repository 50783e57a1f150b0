//! Reductions, in the order of the ranks. Half precision and brain floats are added up in f32 and rounded once, at the end.

use half::{bf16, f16};

use super::kinds::{DataType, ReduceOp};

/// Reduces the ranks' elements, all of one length.
pub(crate) fn reduce(dtype: DataType, op: ReduceOp, parts: &[Vec<u8>]) -> Vec<u8> {
    match dtype {
        DataType::U8 => {
            fold(parts, u8::from_le_bytes, u8::to_le_bytes, int_u8(op), |sum, n| whole_mean(op, sum.into(), n) as u8)
        }
        DataType::I32 => fold(parts, i32::from_le_bytes, i32::to_le_bytes, int_i32(op), |sum, n| {
            whole_mean(op, sum.into(), n) as i32
        }),
        DataType::I64 => {
            fold(parts, i64::from_le_bytes, i64::to_le_bytes, int_i64(op), |sum, n| whole_mean(op, sum, n))
        }
        DataType::F16 => fold(
            parts,
            |b| f16::from_le_bytes(b).to_f32(),
            |x| f16::from_f32(x).to_le_bytes(),
            f32_of(op),
            mean_f32(op),
        ),
        DataType::Bf16 => fold(
            parts,
            |b| bf16::from_le_bytes(b).to_f32(),
            |x| bf16::from_f32(x).to_le_bytes(),
            f32_of(op),
            mean_f32(op),
        ),
        DataType::F32 => fold(parts, f32::from_le_bytes, f32::to_le_bytes, f32_of(op), mean_f32(op)),
        DataType::F64 => fold(parts, f64::from_le_bytes, f64::to_le_bytes, f64_of(op), move |sum, n| {
            if op == ReduceOp::Average { sum / n as f64 } else { sum }
        }),
    }
}

fn fold<const N: usize, T: Copy>(
    parts: &[Vec<u8>],
    read: impl Fn([u8; N]) -> T,
    write: impl Fn(T) -> [u8; N],
    combine: impl Fn(T, T) -> T,
    finish: impl Fn(T, usize) -> T,
) -> Vec<u8> {
    let element = |part: &Vec<u8>, at: usize| {
        let mut bytes = [0; N];
        bytes.copy_from_slice(&part[at * N..(at + 1) * N]);
        read(bytes)
    };
    let Some((first, rest)) = parts.split_first() else { return Vec::new() };
    let reduced = (0..first.len() / N).map(|at| {
        let all = rest.iter().fold(element(first, at), |so_far, part| combine(so_far, element(part, at)));
        write(finish(all, parts.len()))
    });
    reduced.flatten().collect()
}

/// Whole numbers: the mean is rounded towards zero.
fn whole_mean(op: ReduceOp, sum: i64, n: usize) -> i64 {
    if op == ReduceOp::Average { sum / n as i64 } else { sum }
}

macro_rules! whole {
    ($name:ident, $type:ty) => {
        fn $name(op: ReduceOp) -> fn($type, $type) -> $type {
            match op {
                ReduceOp::Sum | ReduceOp::Average => <$type>::wrapping_add,
                ReduceOp::Product => <$type>::wrapping_mul,
                ReduceOp::Max => |a, b| a.max(b),
                ReduceOp::Min => |a, b| a.min(b),
            }
        }
    };
}
whole!(int_u8, u8);
whole!(int_i32, i32);
whole!(int_i64, i64);

macro_rules! float {
    ($name:ident, $type:ty) => {
        fn $name(op: ReduceOp) -> fn($type, $type) -> $type {
            match op {
                ReduceOp::Sum | ReduceOp::Average => |a, b| a + b,
                ReduceOp::Product => |a, b| a * b,
                ReduceOp::Max => <$type>::max,
                ReduceOp::Min => <$type>::min,
            }
        }
    };
}
float!(f32_of, f32);
float!(f64_of, f64);

fn mean_f32(op: ReduceOp) -> impl Fn(f32, usize) -> f32 {
    move |sum, n| if op == ReduceOp::Average { sum / n as f32 } else { sum }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn f32s(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|x| x.to_le_bytes()).collect()
    }

    #[test]
    fn every_way_gives_the_number_expected() {
        let parts = [f32s(&[1.0, -4.0]), f32s(&[2.0, 8.0]), f32s(&[6.0, 2.0])];
        for (op, expected) in [
            (ReduceOp::Sum, [9.0, 6.0]),
            (ReduceOp::Product, [12.0, -64.0]),
            (ReduceOp::Max, [6.0, 8.0]),
            (ReduceOp::Min, [1.0, -4.0]),
            (ReduceOp::Average, [3.0, 2.0]),
        ] {
            assert_eq!(reduce(DataType::F32, op, &parts), f32s(&expected), "{op}");
        }
        let whole = [vec![200_u8, 7], vec![100, 2]];
        assert_eq!(reduce(DataType::U8, ReduceOp::Sum, &whole), [44, 9]);
        let minus = [(-7_i64).to_le_bytes().to_vec(), 2_i64.to_le_bytes().to_vec()];
        assert_eq!(reduce(DataType::I64, ReduceOp::Average, &minus), (-2_i64).to_le_bytes());
        assert_eq!(reduce(DataType::I64, ReduceOp::Product, &minus), (-14_i64).to_le_bytes());
    }

    #[test]
    fn sums_are_in_the_order_of_the_ranks() {
        let (big, small) = (1e8_f32, 1.0_f32);
        assert_eq!(reduce(DataType::F32, ReduceOp::Sum, &[f32s(&[big]), f32s(&[small]), f32s(&[-big])]), f32s(&[0.0]));
        assert_eq!(reduce(DataType::F32, ReduceOp::Sum, &[f32s(&[big]), f32s(&[-big]), f32s(&[small])]), f32s(&[1.0]));
    }

    #[test]
    fn half_precision_is_rounded_once() {
        // One step of rounding each would lose both small ones.
        let parts: Vec<Vec<u8>> = [256.0, 0.75, 0.75].map(|x| bf16::from_f32(x).to_le_bytes().to_vec()).into();
        assert_eq!(reduce(DataType::Bf16, ReduceOp::Sum, &parts), bf16::from_f32(258.0).to_le_bytes());
        let parts: Vec<Vec<u8>> = [2048.0, 0.75, 0.75].map(|x| f16::from_f32(x).to_le_bytes().to_vec()).into();
        assert_eq!(reduce(DataType::F16, ReduceOp::Sum, &parts), f16::from_f32(2050.0).to_le_bytes());
    }
}
