//! `y = x wᵀ + b`: `x` `[.., i]`, `w` `[o, i]`, `b` `[o]`, `y` `[.., o]`.

use candle_core::Tensor;

use super::place::replace;
use super::sums::sum_of_rows;
use crate::error::Result;
use crate::ops::shape::{rows, with_width};

/// `y`.
pub(crate) fn linear(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    let mut y = x.reshape(rows(x))?.matmul(&weight.t()?)?;
    if let Some(bias) = bias {
        y = y.broadcast_add(bias)?;
    }
    Ok(y.reshape(with_width(x, weight.dims()[0]))?)
}

/// `dx = dy w`.
pub(crate) fn linear_backward_input(dy: &Tensor, weight: &Tensor) -> Result<Tensor> {
    Ok(dy.reshape(rows(dy))?.matmul(weight)?.reshape(with_width(dy, weight.dims()[1]))?)
}

/// `dw += dyᵀ x` and `db += ` the sum of the rows of `dy`, both in place, of the wide type.
///
/// For a moment there are the product, and one gradient more.
pub(crate) fn linear_backward_weight(dy: &Tensor, x: &Tensor, dw: &Tensor, db: Option<&Tensor>) -> Result<()> {
    let dy = dy.reshape(rows(dy))?;
    let product = dy.t()?.matmul(&x.reshape(rows(x))?)?.to_dtype(dw.dtype())?;
    replace(dw, dw.add(&product)?)?;
    drop(product);
    match db {
        Some(db) => replace(db, db.add(&sum_of_rows(&dy)?)?),
        None => Ok(()),
    }
}
