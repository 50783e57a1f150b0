//! What a norm keeps for its backward.

use candle_core::Tensor;

/// What the backward parts of a layer norm need besides `x`.
#[derive(Debug)]
pub(crate) struct NormStats {
    /// Mean of each row, `[rows]`.
    pub(crate) mean: Tensor,
    /// Reciprocal standard deviation of each row, `[rows]`.
    pub(crate) rstd: Tensor,
}
