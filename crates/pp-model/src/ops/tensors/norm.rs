//! Layer normalisation over the last dimension: `x` and `y` `[.., h]`, `gamma` and `beta` `[h]`. Statistics in the wide type.

use candle_core::{D, Tensor};

use super::place::replace;
use super::sums::sum_of_rows;
use crate::error::Result;
use crate::ops::shape::rows;
use crate::ops::stats::NormStats;
use crate::ops::way::wide;

/// `y` and the statistics of its rows.
pub(crate) fn layer_norm(x: &Tensor, gamma: &Tensor, beta: &Tensor, eps: f64) -> Result<(Tensor, NormStats)> {
    let (n, _) = rows(x);
    let (values, gamma, beta) = (matrix(x)?, widened(gamma)?, widened(beta)?);
    let mean = values.mean_keepdim(D::Minus1)?;
    let centred = values.broadcast_sub(&mean)?;
    drop(values);
    let rstd = centred.sqr()?.mean_keepdim(D::Minus1)?.affine(1.0, eps)?.sqrt()?.recip()?;
    let normal = centred.broadcast_mul(&rstd)?;
    drop(centred);
    let y = normal.broadcast_mul(&gamma)?.broadcast_add(&beta)?.to_dtype(x.dtype())?.reshape(x.dims())?;
    Ok((y, NormStats { mean: mean.reshape(n)?, rstd: rstd.reshape(n)? }))
}

/// `dx`: with `g = dy * gamma`, `rstd * (g - mean(g) - normal * mean(g * normal))`.
pub(crate) fn layer_norm_backward_input(dy: &Tensor, x: &Tensor, gamma: &Tensor, stats: &NormStats) -> Result<Tensor> {
    let normal = normal(x, stats)?;
    let g = matrix(dy)?.broadcast_mul(&widened(gamma)?)?;
    let along = g.mul(&normal)?.mean_keepdim(D::Minus1)?;
    let towards = normal.broadcast_mul(&along)?;
    drop(normal);
    let rest = g.broadcast_sub(&g.mean_keepdim(D::Minus1)?)?;
    drop(g);
    let rest = (rest - towards)?;
    Ok(rest.broadcast_mul(&column(&stats.rstd)?)?.to_dtype(x.dtype())?.reshape(x.dims())?)
}

/// Accumulates the gradients of `gamma` and `beta`, of the wide type, in place.
pub(crate) fn layer_norm_backward_weight(
    dy: &Tensor,
    x: &Tensor,
    stats: &NormStats,
    dgamma: &Tensor,
    dbeta: &Tensor,
) -> Result<()> {
    let dy = matrix(dy)?;
    replace(dbeta, dbeta.add(&sum_of_rows(&dy)?)?)?;
    replace(dgamma, dgamma.add(&sum_of_rows(&dy.mul(&normal(x, stats)?)?)?)?)
}

/// `x` normalised, without `gamma` and `beta`, `[rows, h]`.
fn normal(x: &Tensor, stats: &NormStats) -> Result<Tensor> {
    Ok(matrix(x)?.broadcast_sub(&column(&stats.mean)?)?.broadcast_mul(&column(&stats.rstd)?)?)
}

/// `[rows, h]` in the wide type.
fn matrix(x: &Tensor) -> Result<Tensor> {
    Ok(widened(x)?.reshape(rows(x))?)
}

fn widened(x: &Tensor) -> Result<Tensor> {
    Ok(x.to_dtype(wide(x.dtype()))?)
}

/// `[rows]` as `[rows, 1]`.
fn column(x: &Tensor) -> Result<Tensor> {
    Ok(x.reshape((x.elem_count(), 1))?)
}
