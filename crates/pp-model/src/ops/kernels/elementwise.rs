//! GELU, sums in place, sums of squares.

use candle_core::Tensor;
use pp_kernels::{activation, reduce};

use super::{blank, on_cpu, tensor};
use crate::error::Result;
use crate::ops::access::{read, write};
use crate::ops::number::Number;

const GELU: &str = "gelu";
const ADD: &str = "add";
const ASSIGN: &str = "assign";
const FILL: &str = "fill";
const SUM_OF_SQUARES: &str = "sum of squares";

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
pub(crate) fn sum_of_squares(a: &Tensor) -> Result<Number> {
    on_cpu!(SUM_OF_SQUARES, a, T => Ok(Number::Here(reduce::sum_squares::<T>(&read(SUM_OF_SQUARES, a)?))))
}
