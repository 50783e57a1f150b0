//! Layer normalisation over the last dimension: `x` and `y` `[.., h]`, `gamma` and `beta` `[h]`.

use candle_core::Tensor;
use pp_kernels::{Real, norm as kernel};

use super::{blank, on_cpu, tensor};
use crate::error::Result;
use crate::ops::access::{read, write};
use crate::ops::shape::rows;
use crate::ops::stats::NormStats;

const OP: &str = "layer norm";

/// `y` and the statistics of its rows.
pub(crate) fn layer_norm(x: &Tensor, gamma: &Tensor, beta: &Tensor, eps: f64) -> Result<(Tensor, NormStats)> {
    on_cpu!(OP, x, T => {
        let (n, h) = rows(x);
        let (mut y, mut mean, mut rstd) = (blank::<T>(n * h), blank::<T>(n), blank::<T>(n));
        kernel::layer_norm_forward(
            &read::<T>(OP, x)?, &read(OP, gamma)?, &read(OP, beta)?, <T as Real>::from_f64(eps),
            &mut y, &mut mean, &mut rstd, n, h,
        );
        let stats = NormStats { mean: tensor(mean, &[n])?, rstd: tensor(rstd, &[n])? };
        Ok((tensor(y, x.dims())?, stats))
    })
}

/// `dx`.
pub(crate) fn layer_norm_backward_input(dy: &Tensor, x: &Tensor, gamma: &Tensor, stats: &NormStats) -> Result<Tensor> {
    on_cpu!(OP, dy, T => {
        let (n, h) = rows(x);
        let mut dx = blank::<T>(n * h);
        kernel::layer_norm_backward_input(
            &read::<T>(OP, dy)?, &read(OP, x)?, &read(OP, gamma)?,
            &read(OP, &stats.mean)?, &read(OP, &stats.rstd)?, &mut dx, n, h,
        );
        tensor(dx, x.dims())
    })
}

/// Accumulates the gradients of `gamma` and `beta` in place.
pub(crate) fn layer_norm_backward_weight(
    dy: &Tensor,
    x: &Tensor,
    stats: &NormStats,
    dgamma: &Tensor,
    dbeta: &Tensor,
) -> Result<()> {
    on_cpu!(OP, dy, T => {
        let (n, h) = rows(x);
        let (dy, x) = (read::<T>(OP, dy)?, read::<T>(OP, x)?);
        let (mean, rstd) = (read::<T>(OP, &stats.mean)?, read::<T>(OP, &stats.rstd)?);
        write(OP, dgamma, |dgamma| {
            write(OP, dbeta, |dbeta| {
                kernel::layer_norm_backward_weight(&dy, &x, &mean, &rstd, dgamma, dbeta, n, h);
            })
        })?
    })
}
