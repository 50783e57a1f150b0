//! `y = x wᵀ + b`: `x` `[.., i]`, `w` `[o, i]`, `b` `[o]`, `y` `[.., o]`.

use candle_core::Tensor;
use pp_kernels::linear as kernel;

use super::{blank, on_cpu, tensor};
use crate::error::Result;
use crate::ops::access::{read, write};
use crate::ops::shape::{rows, with_width};

const OP: &str = "linear";

/// `y`.
pub(crate) fn linear(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    on_cpu!(OP, x, T => {
        let ((n, i), o) = (rows(x), weight.dims()[0]);
        let mut y = blank::<T>(n * o);
        let bias = bias.map(|bias| read::<T>(OP, bias)).transpose()?;
        kernel::forward(&read::<T>(OP, x)?, &read(OP, weight)?, bias.as_deref(), &mut y, n, i, o);
        tensor(y, &with_width(x, o))
    })
}

/// `dx = dy w`.
pub(crate) fn linear_backward_input(dy: &Tensor, weight: &Tensor) -> Result<Tensor> {
    on_cpu!(OP, dy, T => {
        let ((n, o), i) = (rows(dy), weight.dims()[1]);
        let mut dx = blank::<T>(n * i);
        kernel::backward_input(&read::<T>(OP, dy)?, &read(OP, weight)?, &mut dx, n, i, o);
        tensor(dx, &with_width(dy, i))
    })
}

/// `dw += dyᵀ x` and `db += ` the sum of the rows of `dy`, both in place.
pub(crate) fn linear_backward_weight(dy: &Tensor, x: &Tensor, dw: &Tensor, db: Option<&Tensor>) -> Result<()> {
    on_cpu!(OP, dy, T => {
        let ((n, o), (_, i)) = (rows(dy), rows(x));
        let (dy, x) = (read::<T>(OP, dy)?, read::<T>(OP, x)?);
        write(OP, dw, |dw| kernel::backward_weight(&dy, &x, dw, n, i, o))?;
        match db {
            Some(db) => write(OP, db, |db| kernel::backward_bias(&dy, db, n, o)),
            None => Ok(()),
        }
    })
}
