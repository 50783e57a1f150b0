//! GELU in its tanh form (Hendrycks and Gimpel 2016), the one GPT-2 uses.
//!
//! `y = x/2 * (1 + tanh u)`, `u = sqrt(2/π) * (x + 0.044715 x³)`. Since `(1 + tanh u) / 2` is the
//! logistic function at `2u`, one exponential of a number that is never positive suffices: with
//! `t = exp(-|2u|)` it is `1 / (1 + t)` for `u >= 0` and `t / (1 + t)` below, its derivative
//! `t / (1 + t)²`. Neither cancels nor overflows.

use rayon::prelude::*;

use crate::par::{self, TASK, check_len};
use crate::real::Real;
use crate::simd::vectorized;

/// `2 sqrt(2/π)`.
const TWICE_SQRT_2_BY_PI: f64 = 1.595_769_121_605_730_7;
/// The weight of the cubic term.
const CUBIC: f64 = 0.044_715;
/// Beyond this the logistic function is 0 or 1 and its derivative 0 in either precision.
const SATURATED: f64 = 64.0;

/// `y = gelu(x)`, element by element.
///
/// # Panics
/// When the lengths differ.
pub fn gelu_tanh_forward<T: Real>(x: &[T], y: &mut [T]) {
    check_len("y", y.len(), x.len(), "the shape of x");
    if par::pays(x.len()) {
        y.par_chunks_mut(TASK).zip(x.par_chunks(TASK)).for_each(|(y, x)| forward(x, y));
    } else {
        forward(x, y);
    }
}

/// `dx = dy * gelu'(x)`, element by element. Overwrites `dx`.
///
/// # Panics
/// When the lengths differ.
pub fn gelu_tanh_backward<T: Real>(x: &[T], dy: &[T], dx: &mut [T]) {
    check_len("dy", dy.len(), x.len(), "the shape of x");
    check_len("dx", dx.len(), x.len(), "the shape of x");
    if par::pays(x.len()) {
        dx.par_chunks_mut(TASK)
            .zip(x.par_chunks(TASK).zip(dy.par_chunks(TASK)))
            .for_each(|(dx, (x, dy))| backward(x, dy, dx));
    } else {
        backward(x, dy, dx);
    }
}

vectorized! {
    fn forward<'a, T: Real>[_](x: &'a [T], y: &'a mut [T]) {
        for (y, &x) in y.iter_mut().zip(x) {
            let (logistic, _) = logistic_of_twice_u(x);
            *y = x * logistic;
        }
    }

    fn backward<'a, T: Real>[_](x: &'a [T], dy: &'a [T], dx: &'a mut [T]) {
        let scale = T::from_f64(TWICE_SQRT_2_BY_PI);
        let cubic = T::from_f64(3.0 * CUBIC);
        let saturated = T::from_f64(SATURATED);
        for ((dx, &x), &dy) in dx.iter_mut().zip(x).zip(dy) {
            // Holding x keeps infinity * 0 away and changes nothing: the derivative is 0 out there.
            let x = x.held_within(-saturated, saturated);
            let (logistic, slope) = logistic_of_twice_u(x);
            let inner = scale * (T::ONE + cubic * x * x);
            *dx = dy * (logistic + x * slope * inner);
        }
    }
}

/// The logistic function and its derivative at `2u(x)`.
#[inline(always)]
fn logistic_of_twice_u<T: Real>(x: T) -> (T, T) {
    let v = T::from_f64(TWICE_SQRT_2_BY_PI) * x * (T::ONE + T::from_f64(CUBIC) * x * x);
    let t = (if v > T::ZERO { -v } else { v }).exp();
    let inverse = T::ONE / (T::ONE + t);
    let small = t * inverse;
    (if v > T::ZERO { inverse } else { small }, small * inverse)
}
