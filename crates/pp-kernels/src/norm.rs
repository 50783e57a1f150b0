//! Layer normalisation (Ba, Kiros, Hinton 2016) over rows of `h` elements.
//!
//! With `x̂ = (x - mean) * rstd` and `rstd = 1 / sqrt(var + eps)`, `var` the mean squared
//! deviation: `y = gamma * x̂ + beta`. With `g = dy * gamma`,
//! `dx = rstd * (g - mean(g) - x̂ * mean(g * x̂))`; `dgamma = Σ dy * x̂` and `dbeta = Σ dy` over
//! rows.

use rayon::prelude::*;

use crate::par::{self, COLUMNS, check_len};
use crate::real::Real;
use crate::simd::vectorized;

/// `y` `[n, h]` from `x` `[n, h]`, `gamma` `[h]`, `beta` `[h]`; keeps `mean` `[n]` and `rstd` `[n]`
/// for the backward passes.
///
/// # Panics
/// When a length does not match `n`, `h`.
#[expect(clippy::too_many_arguments, reason = "the tensors and shape of one layer")]
pub fn layer_norm_forward<T: Real>(
    x: &[T],
    gamma: &[T],
    beta: &[T],
    eps: T,
    y: &mut [T],
    mean: &mut [T],
    rstd: &mut [T],
    n: usize,
    h: usize,
) {
    check_len("x", x.len(), n * h, "[n, h]");
    check_len("gamma", gamma.len(), h, "[h]");
    check_len("beta", beta.len(), h, "[h]");
    check_len("y", y.len(), n * h, "[n, h]");
    check_len("mean", mean.len(), n, "[n]");
    check_len("rstd", rstd.len(), n, "[n]");
    if par::pays(n * h) {
        let rows = par::rows_per_task(h);
        y.par_chunks_mut(rows * h)
            .zip(x.par_chunks(rows * h))
            .zip(mean.par_chunks_mut(rows).zip(rstd.par_chunks_mut(rows)))
            .for_each(|((y, x), (mean, rstd))| normalize(x, gamma, beta, eps, y, mean, rstd));
    } else {
        normalize(x, gamma, beta, eps, y, mean, rstd);
    }
}

vectorized! {
    /// The forward pass over as many rows as `mean` has elements.
    fn normalize<'a, T: Real>[simd](
        x: &'a [T], gamma: &'a [T], beta: &'a [T], eps: T,
        y: &'a mut [T], mean: &'a mut [T], rstd: &'a mut [T],
    ) {
        let h = gamma.len();
        let count = T::from_f64(h as f64);
        for (r, (mean, rstd)) in mean.iter_mut().zip(rstd).enumerate() {
            let x = &x[r * h..][..h];
            let y = &mut y[r * h..][..h];
            let m = T::sum(simd, x) / count;
            for (y, &x) in y.iter_mut().zip(x) {
                *y = x - m;
            }
            let s = T::ONE / (T::dot(simd, y, y) / count + eps).sqrt();
            for ((y, &gamma), &beta) in y.iter_mut().zip(gamma).zip(beta) {
                *y = *y * s * gamma + beta;
            }
            *mean = m;
            *rstd = s;
        }
    }
}

/// The gradient of the input: overwrites `dx` `[n, h]`; the other shapes as in
/// [`layer_norm_forward`].
///
/// # Panics
/// When a length does not match `n`, `h`.
#[expect(clippy::too_many_arguments, reason = "the tensors and shape of one layer")]
pub fn layer_norm_backward_input<T: Real>(
    dy: &[T],
    x: &[T],
    gamma: &[T],
    mean: &[T],
    rstd: &[T],
    dx: &mut [T],
    n: usize,
    h: usize,
) {
    check_len("dy", dy.len(), n * h, "[n, h]");
    check_len("x", x.len(), n * h, "[n, h]");
    check_len("gamma", gamma.len(), h, "[h]");
    check_len("mean", mean.len(), n, "[n]");
    check_len("rstd", rstd.len(), n, "[n]");
    check_len("dx", dx.len(), n * h, "[n, h]");
    if par::pays(n * h) {
        let rows = par::rows_per_task(h);
        dx.par_chunks_mut(rows * h)
            .zip(dy.par_chunks(rows * h).zip(x.par_chunks(rows * h)))
            .zip(mean.par_chunks(rows).zip(rstd.par_chunks(rows)))
            .for_each(|((dx, (dy, x)), (mean, rstd))| input_rows(dy, x, gamma, mean, rstd, dx));
    } else {
        input_rows(dy, x, gamma, mean, rstd, dx);
    }
}

vectorized! {
    /// The input gradient of as many rows as `mean` has elements.
    fn input_rows<'a, T: Real>[simd](
        dy: &'a [T], x: &'a [T], gamma: &'a [T], mean: &'a [T], rstd: &'a [T], dx: &'a mut [T],
    ) {
        let h = gamma.len();
        let count = T::from_f64(h as f64);
        for (r, (&m, &s)) in mean.iter().zip(rstd).enumerate() {
            let (dy, x) = (&dy[r * h..][..h], &x[r * h..][..h]);
            let dx = &mut dx[r * h..][..h];
            for (((dx, &dy), &gamma), &x) in dx.iter_mut().zip(dy).zip(gamma).zip(x) {
                *dx = dy * gamma * ((x - m) * s);
            }
            let along_x = T::sum(simd, dx) / count;
            let along_one = T::dot(simd, dy, gamma) / count;
            for (((dx, &dy), &gamma), &x) in dx.iter_mut().zip(dy).zip(gamma).zip(x) {
                *dx = s * (dy * gamma - along_one - (x - m) * s * along_x);
            }
        }
    }
}

/// The gradients of the parameters: accumulates into `dgamma` `[h]` and `dbeta` `[h]`.
///
/// # Panics
/// When a length does not match `n`, `h`.
#[expect(clippy::too_many_arguments, reason = "the tensors and shape of one layer")]
pub fn layer_norm_backward_weight<T: Real>(
    dy: &[T],
    x: &[T],
    mean: &[T],
    rstd: &[T],
    dgamma: &mut [T],
    dbeta: &mut [T],
    n: usize,
    h: usize,
) {
    check_len("dy", dy.len(), n * h, "[n, h]");
    check_len("x", x.len(), n * h, "[n, h]");
    check_len("mean", mean.len(), n, "[n]");
    check_len("rstd", rstd.len(), n, "[n]");
    check_len("dgamma", dgamma.len(), h, "[h]");
    check_len("dbeta", dbeta.len(), h, "[h]");
    if par::pays(n * h) {
        dgamma.par_chunks_mut(COLUMNS).zip(dbeta.par_chunks_mut(COLUMNS)).enumerate().for_each(
            |(task, (dgamma, dbeta))| {
                weight_columns(dy, x, mean, rstd, task * COLUMNS, h, dgamma, dbeta);
            },
        );
    } else {
        let tasks = dgamma.chunks_mut(COLUMNS).zip(dbeta.chunks_mut(COLUMNS));
        for (task, (dgamma, dbeta)) in tasks.enumerate() {
            weight_columns(dy, x, mean, rstd, task * COLUMNS, h, dgamma, dbeta);
        }
    }
}

vectorized! {
    /// Adds the parameter gradients of `dgamma.len() <= COLUMNS` columns from `first` on, summed in
    /// row order.
    #[expect(clippy::too_many_arguments, reason = "the tensors and columns of one task")]
    fn weight_columns<'a, T: Real>[_](
        dy: &'a [T], x: &'a [T], mean: &'a [T], rstd: &'a [T], first: usize, h: usize,
        dgamma: &'a mut [T], dbeta: &'a mut [T],
    ) {
        let width = dgamma.len();
        let mut products = [T::ZERO; COLUMNS];
        let mut sums = [T::ZERO; COLUMNS];
        for (r, (&m, &s)) in mean.iter().zip(rstd).enumerate() {
            let dy = &dy[r * h + first..][..width];
            let x = &x[r * h + first..][..width];
            let lanes = products[..width].iter_mut().zip(&mut sums[..width]);
            for ((product, sum), (&dy, &x)) in lanes.zip(dy.iter().zip(x)) {
                *product = *product + dy * ((x - m) * s);
                *sum = *sum + dy;
            }
        }
        for (dgamma, product) in dgamma.iter_mut().zip(products) {
            *dgamma = *dgamma + product;
        }
        for (dbeta, sum) in dbeta.iter_mut().zip(sums) {
            *dbeta = *dbeta + sum;
        }
    }
}
