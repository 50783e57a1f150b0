//! Between tensors and the buffers that travel: on the device where the tensors are. Both ways move the memory.

#[cfg(feature = "cuda")]
mod device;
mod host;

use candle_core::{DType, Device, Tensor};
use pp_comm::{Boundary, Buffer};

use crate::error::{ModelError, Result};

const OP: &str = "message";

/// The contract for tensors of `dtype` and `shape`.
pub(super) fn boundary(device: &Device, dtype: DType, shape: &[usize]) -> Result<Boundary> {
    let dtype = match dtype {
        DType::F32 => pp_comm::DType::F32,
        DType::F64 => pp_comm::DType::F64,
        DType::BF16 => pp_comm::DType::Bf16,
        dtype => return Err(ModelError::unsupported(OP, device, dtype)),
    };
    Ok(Boundary::new(dtype, shape)?)
}

/// Moves a tensor's elements into a buffer. Only for tensors that nothing else holds: what a chunk puts out is fresh.
pub(super) fn into_buffer(tensor: Tensor) -> Result<Buffer> {
    #[cfg(feature = "cuda")]
    if let Device::Cuda(device) = tensor.device().clone() {
        return device::into_buffer(tensor, &device);
    }
    host::into_buffer(tensor)
}

/// Copies a tensor's elements into a buffer.
pub(super) fn copy_to_buffer(tensor: &Tensor) -> Result<Buffer> {
    into_buffer(tensor.copy()?)
}

/// Moves a buffer's elements into a tensor. Those of the host are copied where `device` is a GPU.
pub(super) fn into_tensor(buffer: Buffer, device: &Device) -> Result<Tensor> {
    #[cfg(feature = "cuda")]
    if let (true, Device::Cuda(device)) = (buffer.is_on_device(), device) {
        return device::into_tensor(buffer, device);
    }
    host::into_tensor(buffer, device)
}
