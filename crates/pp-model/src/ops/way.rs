//! The two ways an operation can be done, and which one is for which tensor.

use candle_core::{DType, Device, Tensor};

use crate::error::{ModelError, Result};

/// How an operation is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// `pp-kernels` over the tensor's memory.
    Kernels,
    /// The tensor library's own operations.
    Tensors,
}

impl Way {
    /// The way for tensors of this number type on this device.
    pub(crate) fn on(op: &'static str, device: &Device, dtype: DType) -> Result<Self> {
        match (device, dtype) {
            (Device::Cpu, DType::F32 | DType::F64) => Ok(Self::Kernels),
            (Device::Cpu, DType::BF16) | (Device::Cuda(_), DType::F32 | DType::F64 | DType::BF16) => Ok(Self::Tensors),
            _ => Err(ModelError::unsupported(op, device, dtype)),
        }
    }

    /// The way for this tensor.
    pub(crate) fn of(op: &'static str, tensor: &Tensor) -> Result<Self> {
        Self::on(op, tensor.device(), tensor.dtype())
    }
}

/// The number type of sums, statistics, main gradients and optimizer states beside values of `dtype`: `f32` for `bf16`, whose 8
/// bits would not take up small terms; else the same.
pub(crate) fn wide(dtype: DType) -> DType {
    if dtype == DType::BF16 { DType::F32 } else { dtype }
}
