//! Operations on the CPU: `pp-kernels` over the tensors' own memory, in `f32` and `f64`.

mod attention;
mod elementwise;
mod embedding;
mod linear;
mod loss;
mod norm;
mod optim;

use candle_core::{Device, Tensor};

use super::access::Element;
use crate::error::Result;

pub(crate) use attention::{attention, attention_backward};
pub(crate) use elementwise::{add_assign, assign, fill_zero, gelu, gelu_backward, sum_of_squares};
pub(crate) use embedding::{embedding, embedding_backward};
pub(crate) use linear::{linear, linear_backward_input, linear_backward_weight};
pub(crate) use loss::{cross_entropy, cross_entropy_in_place};
pub(crate) use norm::{layer_norm, layer_norm_backward_input, layer_norm_backward_weight};
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
use on_cpu;

/// Memory for a result that a kernel overwrites.
fn blank<T: Element>(len: usize) -> Vec<T> {
    vec![T::ZERO; len]
}

/// A result as a tensor; moves it.
fn tensor<T: Element>(values: Vec<T>, dims: &[usize]) -> Result<Tensor> {
    Ok(Tensor::from_vec(values, dims, &Device::Cpu)?)
}
