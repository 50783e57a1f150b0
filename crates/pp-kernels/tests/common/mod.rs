//! What the tests share: repeatable noise and comparisons.
#![allow(dead_code)] // each test binary uses its own part

use pp_kernels::Real;

/// Numbers between -1 and 1 that look random and follow from `seed`.
pub(crate) fn noise<T: Real>(len: usize, seed: u64) -> Vec<T> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        T::from_f64((state >> 11) as f64 / (1_u64 << 52) as f64 - 1.0)
    };
    std::iter::repeat_with(next).take(len).collect()
}

/// A vector of zeros.
pub(crate) fn zeros<T: Real>(len: usize) -> Vec<T> {
    vec![T::ZERO; len]
}

/// The numbers in `f64`.
pub(crate) fn widened<T: Real>(x: &[T]) -> Vec<f64> {
    x.iter().map(|x| x.to_f64()).collect()
}

/// Fails unless each number is within `tolerance` of what is expected, relative to 1 or its size.
#[track_caller]
pub(crate) fn assert_close<T: Real>(what: &str, found: &[T], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len(), "{what}: length");
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        let error = (found.to_f64() - expected).abs() / expected.abs().max(1.0);
        assert!(error <= tolerance, "{what}[{i}] is {found}, expected {expected}: off by {error:e}");
    }
}

/// Fails unless `gradient` is the derivative of `f` at `x`, by central differences.
#[track_caller]
pub(crate) fn assert_gradient(what: &str, x: &[f64], gradient: &[f64], f: impl Fn(&[f64]) -> f64) {
    const STEP: f64 = 1e-5;
    let mut x = x.to_vec();
    let differences: Vec<f64> = (0..x.len())
        .map(|i| {
            let at = x[i];
            x[i] = at + STEP;
            let above = f(&x);
            x[i] = at - STEP;
            let below = f(&x);
            x[i] = at;
            (above - below) / (2.0 * STEP)
        })
        .collect();
    assert_close(what, gradient, &differences, 1e-7);
}

/// The sum of products: a scalar whose gradient in `y` is `dy`.
pub(crate) fn dot(y: &[f64], dy: &[f64]) -> f64 {
    y.iter().zip(dy).map(|(y, dy)| y * dy).sum()
}
