//! GELU, and sums and copies in place.

use std::f64::consts::PI;

use candle_core::Tensor;

use super::place::replace;
use crate::error::Result;
use crate::ops::way::wide;

/// The cubic's part in the tanh form of GELU: `0.5 x (1 + tanh(sqrt(2 / π) (x + 0.044715 x³)))` (Hendrycks and Gimpel 2016).
const CUBIC: f64 = 0.044715;

/// GELU in its tanh form.
pub(crate) fn gelu(x: &Tensor) -> Result<Tensor> {
    Ok(x.to_dtype(wide(x.dtype()))?.gelu()?.to_dtype(x.dtype())?)
}

/// `dx` of GELU: with `t` the tangent, `dy * (0.5 (1 + t) + 0.5 x (1 - t²) sqrt(2 / π) (1 + 3 · 0.044715 x²))`.
pub(crate) fn gelu_backward(x: &Tensor, dy: &Tensor) -> Result<Tensor> {
    let dtype = x.dtype();
    let x = x.to_dtype(wide(dtype))?;
    let scale = (2.0 / PI).sqrt();
    let square = x.sqr()?;
    let t = square.affine(scale * CUBIC, scale)?.mul(&x)?.tanh()?;
    let slope = square.affine(1.5 * scale * CUBIC, 0.5 * scale)?.mul(&x)?;
    drop((square, x));
    let bend = t.sqr()?.affine(-1.0, 1.0)?.mul(&slope)?;
    drop(slope);
    let derivative = t.affine(0.5, 0.5)?.add(&bend)?;
    drop((t, bend));
    Ok(derivative.mul(&dy.to_dtype(derivative.dtype())?)?.to_dtype(dtype)?)
}

/// `a += b` in place, of one number type.
pub(crate) fn add_assign(a: &Tensor, b: &Tensor) -> Result<()> {
    replace(a, a.add(b)?)
}

/// `a = b` in place, rounded to the number type of `a`.
pub(crate) fn assign(a: &Tensor, b: &Tensor) -> Result<()> {
    // Memory of its own, also where there is nothing to round.
    let b = if a.dtype() == b.dtype() { b.copy()? } else { b.to_dtype(a.dtype())? };
    replace(a, b)
}

/// `a = 0` in place.
pub(crate) fn fill_zero(a: &Tensor) -> Result<()> {
    Ok(a.zero_set()?)
}
