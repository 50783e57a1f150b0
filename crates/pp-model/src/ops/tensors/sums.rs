//! Sums over rows and over all.

use candle_core::{D, DType, Tensor};

use crate::error::Result;
use crate::ops::number::Number;
use crate::ops::shape::rows;
use crate::ops::way::wide;

/// The sum of the rows of `x` `[.., h]`, `[h]`, in the wide type.
///
/// A product with ones: the library's own sum along other than the last dimension reads memory against its order.
pub(super) fn sum_of_rows(x: &Tensor) -> Result<Tensor> {
    let (n, h) = rows(x);
    let x = x.reshape((n, h))?.to_dtype(wide(x.dtype()))?;
    let ones = Tensor::ones((1, n), x.dtype(), x.device())?;
    Ok(ones.matmul(&x)?.reshape(h)?)
}

/// The sum of squares, on the device: squares and the sums of rows in the wide type, the sum of those in `f64`.
pub(crate) fn sum_of_squares(a: &Tensor) -> Result<Number> {
    let squares = a.reshape(rows(a))?.to_dtype(wide(a.dtype()))?.sqr()?;
    Ok(Number::There(squares.sum(D::Minus1)?.to_dtype(DType::F64)?.sum_all()?))
}
