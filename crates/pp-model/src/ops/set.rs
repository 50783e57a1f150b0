//! All operations, as values: what runs on every tensor is checked through them, and each of the two ways by itself.

use candle_core::{DType, Device, Tensor};
use pp_kernels::AdamW;

#[cfg(test)]
use super::tensors;
use super::{CausalMask, Labels, Loss, NormStats, Number, Tokens, Way, kernels};
use crate::error::Result;

/// The operations.
#[derive(Clone, Copy)]
#[allow(clippy::type_complexity)]
pub(crate) struct Set {
    pub(crate) way: fn(&'static str, &Device, DType) -> Result<Way>,
    pub(crate) linear: fn(&Tensor, &Tensor, Option<&Tensor>) -> Result<Tensor>,
    pub(crate) linear_backward_input: fn(&Tensor, &Tensor) -> Result<Tensor>,
    pub(crate) linear_backward_weight: fn(&Tensor, &Tensor, &Tensor, Option<&Tensor>) -> Result<()>,
    pub(crate) layer_norm: fn(&Tensor, &Tensor, &Tensor, f64) -> Result<(Tensor, NormStats)>,
    pub(crate) layer_norm_backward_input: fn(&Tensor, &Tensor, &Tensor, &NormStats) -> Result<Tensor>,
    pub(crate) layer_norm_backward_weight: fn(&Tensor, &Tensor, &NormStats, &Tensor, &Tensor) -> Result<()>,
    pub(crate) attention: fn(&Tensor, usize, &CausalMask) -> Result<(Tensor, Tensor)>,
    pub(crate) attention_backward: fn(&Tensor, &Tensor, &Tensor, usize) -> Result<Tensor>,
    pub(crate) gelu: fn(&Tensor) -> Result<Tensor>,
    pub(crate) gelu_backward: fn(&Tensor, &Tensor) -> Result<Tensor>,
    pub(crate) embedding: fn(&Tokens, usize, &Tensor, &Tensor) -> Result<Tensor>,
    pub(crate) embedding_backward: fn(&Tokens, &Tensor, &Tensor, &Tensor) -> Result<()>,
    pub(crate) cross_entropy: fn(&Tensor, &Labels) -> Result<Loss>,
    pub(crate) cross_entropy_in_place: fn(&Tensor, &Labels) -> Result<Loss>,
    pub(crate) add_assign: fn(&Tensor, &Tensor) -> Result<()>,
    pub(crate) assign: fn(&Tensor, &Tensor) -> Result<()>,
    pub(crate) fill_zero: fn(&Tensor) -> Result<()>,
    pub(crate) sum_of_squares: fn(&Tensor) -> Result<Number>,
    pub(crate) adamw: fn(&Tensor, &Tensor, &Tensor, &Tensor, AdamW) -> Result<()>,
}

/// The operations of a module, and the way that they go.
macro_rules! set {
    ($way:expr, $($module:ident)::+, $attention:expr) => {{
        use $($module)::+ as ops;
        Set {
            way: $way,
            linear: ops::linear,
            linear_backward_input: ops::linear_backward_input,
            linear_backward_weight: ops::linear_backward_weight,
            layer_norm: ops::layer_norm,
            layer_norm_backward_input: ops::layer_norm_backward_input,
            layer_norm_backward_weight: ops::layer_norm_backward_weight,
            attention: $attention,
            attention_backward: ops::attention_backward,
            gelu: ops::gelu,
            gelu_backward: ops::gelu_backward,
            embedding: ops::embedding,
            embedding_backward: ops::embedding_backward,
            cross_entropy: ops::cross_entropy,
            cross_entropy_in_place: ops::cross_entropy_in_place,
            add_assign: ops::add_assign,
            assign: ops::assign,
            fill_zero: ops::fill_zero,
            sum_of_squares: ops::sum_of_squares,
            adamw: ops::adamw,
        }
    }};
}

impl Set {
    /// As the layers call them.
    pub(crate) const ANY: Self = set!(Way::on, super, super::attention);
    /// By kernels.
    pub(crate) const KERNELS: Self =
        set!(|_, _, _| Ok(Way::Kernels), kernels, |qkv, n_heads, _| kernels::attention(qkv, n_heads));
    /// By the tensor library, on every device.
    #[cfg(test)]
    pub(crate) const TENSORS: Self = set!(|_, _, _| Ok(Way::Tensors), tensors, tensors::attention);
}
