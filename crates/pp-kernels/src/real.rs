//! The number trait: `f32` and `f64`, with the operations that kernels need inside loops.

use std::fmt::{Debug, Display};
use std::ops::{Add, Div, Mul, Neg, Sub};

use crate::simd::Lanes;

/// An IEEE floating-point number that kernels compute with: `f32` or `f64`, and no other.
///
/// `f32` is what training runs on; `f64` is there for checks against finite differences.
pub trait Real:
    Lanes
    + Copy
    + Debug
    + Display
    + PartialOrd
    + Send
    + Sync
    + 'static
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
{
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;
    /// Negative infinity, the score of a masked position.
    const NEG_INFINITY: Self;

    /// The nearest number to `x`.
    fn from_f64(x: f64) -> Self;
    /// This number, widened.
    fn to_f64(self) -> f64;
    /// e to the power of `self`; for `f32` within 2 ulp, for `f64` the standard library's.
    ///
    /// `f32` results below the smallest normal number are 0, above the largest infinity; NaN stays
    /// NaN.
    fn exp(self) -> Self;
    /// Square root, correctly rounded.
    fn sqrt(self) -> Self;

    /// `self` held within `[low, high]`; NaN stays NaN.
    #[inline(always)]
    fn held_within(self, low: Self, high: Self) -> Self {
        let x = if self < low { low } else { self };
        if x > high { high } else { x }
    }
}

impl Real for f32 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;
    const NEG_INFINITY: Self = f32::NEG_INFINITY;

    #[inline(always)]
    fn from_f64(x: f64) -> Self {
        x as f32
    }

    #[inline(always)]
    fn to_f64(self) -> f64 {
        f64::from(self)
    }

    #[inline(always)]
    fn exp(self) -> Self {
        exp_f32(self)
    }

    #[inline(always)]
    fn sqrt(self) -> Self {
        f32::sqrt(self)
    }
}

impl Real for f64 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;
    const NEG_INFINITY: Self = f64::NEG_INFINITY;

    #[inline(always)]
    fn from_f64(x: f64) -> Self {
        x
    }

    #[inline(always)]
    fn to_f64(self) -> f64 {
        self
    }

    #[inline(always)]
    fn exp(self) -> Self {
        f64::exp(self)
    }

    #[inline(always)]
    fn sqrt(self) -> Self {
        f64::sqrt(self)
    }
}

/// Below this the exponential is subnormal or less, and taken for 0.
const EXP_LOW: f32 = -87.336_54;
/// Above this the exponential is infinite.
const EXP_HIGH: f32 = 89.0;
/// The high bits of ln 2, few enough that a product with any exponent here is exact.
const LN_2_HIGH: f32 = 0.693_359_4;
/// ln 2 minus `LN_2_HIGH`.
const LN_2_LOW: f32 = -2.121_944_4e-4;
/// 1.5 * 2^23: adding it rounds to the nearest integer and leaves that integer in the low bits.
const ROUND: f32 = 12_582_912.0;
/// `1 + r + r^2 q(r)` is e^r on `[-ln 2 / 2, ln 2 / 2]` with a relative error of 4.2e-9 (weighted
/// minimax fit, coefficients rounded to `f32`). From r^6 down.
const Q: [f32; 5] = [0.001_381_431_8, 0.008_368_852, 0.041_668_4, 0.166_665_2, 0.499_999_94];

/// e^x without branches, tables, fused operations or calls, so that loops over it vectorise.
///
/// x = n ln 2 + r with integer n; the result is 2^n e^r. The power is applied in two halves, since
/// 2^128 is no number while results that need it are. Subnormal results are flushed: masked
/// positions would otherwise pay the processor's slow path for underflow, each of them.
#[inline(always)]
fn exp_f32(exponent: f32) -> f32 {
    let x = exponent.held_within(EXP_LOW, EXP_HIGH);
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let n = (shifted.to_bits() as i32).wrapping_sub(ROUND.to_bits() as i32);
    let whole = shifted - ROUND;
    let r = (x - whole * LN_2_HIGH) - whole * LN_2_LOW;

    let q = (((Q[0] * r + Q[1]) * r + Q[2]) * r + Q[3]) * r + Q[4];
    let p = (r * r * q + r) + 1.0;

    let half = n >> 1;
    let power = p * power_of_two(half) * power_of_two(n.wrapping_sub(half));
    if exponent < EXP_LOW { 0.0 } else { power }
}

/// 2^n for n in `[-126, 127]`.
#[inline(always)]
fn power_of_two(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) as u32).wrapping_shl(23))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Distance between `got` and the exact value, in units of the last place at the exact value.
    fn ulps(got: f32, exact: f64) -> f64 {
        let near = exact as f32;
        let ulp = f64::from(near.next_up()) - f64::from(near);
        (f64::from(got) - exact).abs() / ulp
    }

    #[test]
    fn exp_is_within_two_ulp_over_all_finite_results() {
        let mut worst = (0.0, 0.0);
        let mut check = |x: f32| {
            let exact = f64::from(x).exp();
            if exact < f64::from(f32::MIN_POSITIVE) {
                let got = f64::from(Real::exp(x));
                assert!(got == 0.0 || ulps(got as f32, exact) <= 2.0, "{got} at {x}");
            } else if exact < f64::from(f32::MAX) {
                let error = ulps(Real::exp(x), exact);
                if error > worst.0 {
                    worst = (error, x);
                }
            }
        };
        for i in 0..2_000_000 {
            check(-104.5 + 194.0 * (i as f32) / 2_000_000.0);
        }
        // Every exponent, tiny arguments and both signs included.
        for bits in (0..=f32::INFINITY.to_bits()).step_by(4_093) {
            let x = f32::from_bits(bits);
            if x < 89.0 {
                check(x);
                check(-x);
            }
        }
        assert!(worst.0 <= 2.0, "error of {} ulp at {}", worst.0, worst.1);
    }

    #[test]
    fn exp_at_the_extremes() {
        assert_eq!(Real::exp(0.0_f32), 1.0);
        assert_eq!(Real::exp(-0.0_f32), 1.0);
        assert_eq!(Real::exp(f32::NEG_INFINITY), 0.0);
        assert_eq!(Real::exp(f32::MIN), 0.0);
        assert_eq!(Real::exp(-87.34_f32), 0.0);
        assert!(Real::exp(-87.336_f32).is_normal());
        assert_eq!(Real::exp(f32::INFINITY), f32::INFINITY);
        assert_eq!(Real::exp(f32::MAX), f32::INFINITY);
        assert_eq!(Real::exp(88.73_f32), f32::INFINITY);
        assert!(Real::exp(88.72_f32).is_finite());
        assert!(Real::exp(f32::NAN).is_nan());
        assert!(Real::exp(-f32::NAN).is_nan());
    }

    #[test]
    fn nan_passes_through_the_comparisons() {
        assert!(f32::NAN.held_within(-1.0, 1.0).is_nan());
        assert_eq!(2.0_f32.held_within(-1.0, 1.0), 1.0);
    }
}
