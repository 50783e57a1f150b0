//! Shapes of matrices in tensors of any rank.

use candle_core::Tensor;

/// A tensor `[.., width]` as a matrix: its rows and its width.
pub(crate) fn rows(tensor: &Tensor) -> (usize, usize) {
    let width = tensor.dims().last().copied().unwrap_or(1);
    (tensor.elem_count() / width.max(1), width)
}

/// The shape of `tensor` with another last dimension.
pub(crate) fn with_width(tensor: &Tensor, width: usize) -> Vec<usize> {
    let mut dims = tensor.dims().to_vec();
    if let Some(last) = dims.last_mut() {
        *last = width;
    }
    dims
}
