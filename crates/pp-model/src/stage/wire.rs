//! Between tensors and the buffers that travel. On the CPU both ways move the memory.

use candle_core::{DType, Device, Tensor};
use pp_comm::{Boundary, Buffer};

use crate::chunk::Numbers;
use crate::error::{ModelError, Result};
use crate::ops::access;

const OP: &str = "message";

/// The contract for tensors of `dtype` and `shape`.
pub(super) fn boundary(numbers: &Numbers, dtype: DType, shape: &[usize]) -> Result<Boundary> {
    let dtype = match dtype {
        DType::F32 => pp_comm::DType::F32,
        DType::F64 => pp_comm::DType::F64,
        dtype => return Err(ModelError::unsupported(OP, &numbers.device, dtype)),
    };
    Ok(Boundary::new(dtype, shape)?)
}

/// Moves a tensor's elements into a buffer. Only for tensors that nothing else holds: what a chunk puts out is fresh.
pub(super) fn into_buffer(tensor: Tensor) -> Result<Buffer> {
    let shape = tensor.dims().to_vec();
    Ok(match tensor.dtype() {
        DType::F32 => Buffer::f32(&shape, access::take(OP, tensor)?)?,
        DType::F64 => Buffer::f64(&shape, access::take(OP, tensor)?)?,
        dtype => return Err(ModelError::unsupported(OP, tensor.device(), dtype)),
    })
}

/// Copies a tensor's elements into a buffer.
pub(super) fn copy_to_buffer(tensor: &Tensor) -> Result<Buffer> {
    let shape = tensor.dims();
    Ok(match tensor.dtype() {
        DType::F32 => Buffer::f32(shape, access::read::<f32>(OP, tensor)?.to_vec())?,
        DType::F64 => Buffer::f64(shape, access::read::<f64>(OP, tensor)?.to_vec())?,
        dtype => return Err(ModelError::unsupported(OP, tensor.device(), dtype)),
    })
}

/// Moves a buffer's elements into a tensor.
pub(super) fn into_tensor(buffer: Buffer, device: &Device) -> Result<Tensor> {
    let shape = buffer.boundary().shape().to_vec();
    Ok(match buffer.boundary().dtype() {
        pp_comm::DType::F32 => Tensor::from_vec(buffer.into_f32()?, shape, device)?,
        pp_comm::DType::F64 => Tensor::from_vec(buffer.into_f64()?, shape, device)?,
        pp_comm::DType::I64 => return Err(ModelError::unsupported(OP, device, DType::I64)),
        pp_comm::DType::Bf16 => return Err(ModelError::unsupported(OP, device, DType::BF16)),
    })
}
