//! GELU, sums in place, sums of squares.

use candle_core::Tensor;
use pp_kernels::{activation, reduce};

use super::access::{read, write};
use super::{blank, on_cpu, tensor};
use crate::error::Result;

const GELU: &str = "gelu";
const ADD: &str = "add";
const ASSIGN: &str = "assign";
const FILL: &str = "fill";
const SUM_SQUARES: &str = "sum of squares";

/// GELU in its tanh form.
pub(crate) fn gelu(x: &Tensor) -> Result<Tensor> {
    on_cpu!(GELU, x, T => {
        let mut y = blank::<T>(x.elem_count());
        activation::gelu_tanh_forward(&read::<T>(GELU, x)?, &mut y);
        tensor(y, x.dims())
    })
}

/// `dx` of GELU.
pub(crate) fn gelu_backward(x: &Tensor, dy: &Tensor) -> Result<Tensor> {
    on_cpu!(GELU, x, T => {
        let mut dx = blank::<T>(x.elem_count());
        activation::gelu_tanh_backward(&read::<T>(GELU, x)?, &read(GELU, dy)?, &mut dx);
        tensor(dx, x.dims())
    })
}

/// `a += b` in place.
pub(crate) fn add_assign(a: &Tensor, b: &Tensor) -> Result<()> {
    on_cpu!(ADD, a, T => {
        let b = read::<T>(ADD, b)?;
        write(ADD, a, |a| reduce::add_assign(a, &b))
    })
}

/// `a = b` in place.
pub(crate) fn assign(a: &Tensor, b: &Tensor) -> Result<()> {
    on_cpu!(ASSIGN, a, T => {
        let b = read::<T>(ASSIGN, b)?;
        write(ASSIGN, a, |a| a.copy_from_slice(&b))
    })
}

/// `a = 0` in place.
pub(crate) fn fill_zero(a: &Tensor) -> Result<()> {
    on_cpu!(FILL, a, T => write(FILL, a, |a: &mut [T]| a.fill(0.0)))
}

/// The sum of squares, in `f64`.
pub(crate) fn sum_squares(a: &Tensor) -> Result<f64> {
    on_cpu!(SUM_SQUARES, a, T => Ok(reduce::sum_squares::<T>(&read(SUM_SQUARES, a)?)))
}
