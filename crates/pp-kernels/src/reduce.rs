//! Whole-tensor sums and scalings: gradient norms, clipping, adding of gradients.

use rayon::prelude::*;

use crate::par::{self, TASK, check_len};
use crate::real::Real;
use crate::simd::{Lanes, vectorized};

/// Elements that are widened at a time, few enough for the nearest cache.
const WIDENED: usize = 512;

/// The sum of squares, in `f64`.
///
/// Blocks of a fixed size are summed over fixed lanes and their sums added in order, so the result
/// follows from the slice alone.
pub fn sum_squares<T: Real>(x: &[T]) -> f64 {
    if par::pays(x.len()) {
        let partials: Vec<f64> = x.par_chunks(TASK).map(|x| block_sum_squares(x)).collect();
        partials.iter().sum()
    } else {
        x.chunks(TASK).map(|x| block_sum_squares(x)).sum()
    }
}

/// `a += b`, element by element.
///
/// # Panics
/// When the lengths differ.
pub fn add_assign<T: Real>(a: &mut [T], b: &[T]) {
    check_len("b", b.len(), a.len(), "the shape of a");
    if par::pays(a.len()) {
        a.par_chunks_mut(TASK).zip(b.par_chunks(TASK)).for_each(|(a, b)| block_add(a, b));
    } else {
        block_add(a, b);
    }
}

/// `a *= factor`, element by element.
pub fn scale<T: Real>(a: &mut [T], factor: T) {
    if par::pays(a.len()) {
        a.par_chunks_mut(TASK).for_each(|a| block_scale(a, factor));
    } else {
        block_scale(a, factor);
    }
}

vectorized! {
    /// Squares are widened before they are taken, so none overflows.
    fn block_sum_squares<'a, T: Real>[simd](x: &'a [T]) -> f64 {
        let mut wide = [0.0; WIDENED];
        let mut sum = 0.0;
        for x in x.chunks(WIDENED) {
            let wide = &mut wide[..x.len()];
            for (wide, &x) in wide.iter_mut().zip(x) {
                *wide = x.to_f64();
            }
            sum += f64::dot(simd, wide, wide);
        }
        sum
    }

    fn block_add<'a, T: Real>[_](a: &'a mut [T], b: &'a [T]) {
        for (a, &b) in a.iter_mut().zip(b) {
            *a = *a + b;
        }
    }

    fn block_scale<'a, T: Real>[_](a: &'a mut [T], factor: T) {
        for a in a {
            *a = *a * factor;
        }
    }
}
