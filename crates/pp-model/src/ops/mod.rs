//! Operations on tensors, each with its backward parts: the only place that knows devices and number types.
//!
//! | device | how |
//! |---|---|
//! | CPU, `f32` and `f64` | `pp-kernels` over the tensors' own memory |
//! | everything else | [`crate::ModelError::Unsupported`]; an operation gains a device here, nothing above changes |
//!
//! Tensors are contiguous by construction. Shapes are those of the layer that calls: what comes from outside is
//! checked at the [stage](crate::stage), so a mismatch here is a bug and the kernels panic with the sizes.
//! Results are fresh tensors; what accumulates or works in place says so in its name or its first line.

pub(crate) mod access;
mod attention;
mod elementwise;
mod embedding;
mod linear;
mod loss;
mod norm;
mod optim;

use candle_core::{Device, Tensor};

use crate::error::Result;
use access::Element;

pub(crate) use attention::{attention, attention_backward};
pub(crate) use elementwise::{add_assign, assign, fill_zero, gelu, gelu_backward, sum_squares};
pub(crate) use embedding::{embedding, embedding_backward};
pub(crate) use linear::{linear, linear_backward_input, linear_backward_weight};
pub(crate) use loss::{cross_entropy, cross_entropy_in_place};
pub(crate) use norm::{NormStats, layer_norm, layer_norm_backward_input, layer_norm_backward_weight};
pub(crate) use optim::adamw;

/// Runs `$body` with `$T` the number type of a CPU tensor; an error for what is not supported.
macro_rules! on_cpu {
    ($op:expr, $tensor:expr, $T:ident => $body:expr) => {{
        let tensor: &candle_core::Tensor = $tensor;
        match (tensor.device(), tensor.dtype()) {
            (candle_core::Device::Cpu, candle_core::DType::F32) => {
                type $T = f32;
                $body
            }
            (candle_core::Device::Cpu, candle_core::DType::F64) => {
                type $T = f64;
                $body
            }
            (device, dtype) => Err(crate::error::ModelError::unsupported($op, device, dtype)),
        }
    }};
}
pub(crate) use on_cpu;

/// Memory for a result that a kernel overwrites.
fn blank<T: Element>(len: usize) -> Vec<T> {
    vec![T::ZERO; len]
}

/// A result as a tensor; moves it.
fn tensor<T: Element>(values: Vec<T>, dims: &[usize]) -> Result<Tensor> {
    Ok(Tensor::from_vec(values, dims, &Device::Cpu)?)
}

/// A tensor `[.., width]` as a matrix: its rows and its width.
fn rows(tensor: &Tensor) -> (usize, usize) {
    let width = tensor.dims().last().copied().unwrap_or(1);
    (tensor.elem_count() / width.max(1), width)
}
