//! In memory of the host.

use candle_core::{DType, Device, Tensor};
use half::bf16;
use half::vec::{HalfBitsVecExt, HalfFloatVecExt};
use pp_comm::Buffer;

use super::OP;
use crate::error::{ModelError, Result};
use crate::ops::access;

/// Moves the elements of a tensor on the CPU.
pub(super) fn into_buffer(tensor: Tensor) -> Result<Buffer> {
    let shape = tensor.dims().to_vec();
    Ok(match tensor.dtype() {
        DType::F32 => Buffer::f32(&shape, access::take(OP, tensor)?)?,
        DType::F64 => Buffer::f64(&shape, access::take(OP, tensor)?)?,
        DType::BF16 => Buffer::bf16(&shape, access::take::<bf16>(OP, tensor)?.reinterpret_into())?,
        dtype => return Err(ModelError::unsupported(OP, tensor.device(), dtype)),
    })
}

/// Moves the elements to a tensor on the CPU, or copies them to one on a GPU.
pub(super) fn into_tensor(buffer: Buffer, device: &Device) -> Result<Tensor> {
    let shape = buffer.boundary().shape().to_vec();
    Ok(match buffer.boundary().dtype() {
        pp_comm::DType::F32 => Tensor::from_vec(buffer.into_f32()?, shape, device)?,
        pp_comm::DType::F64 => Tensor::from_vec(buffer.into_f64()?, shape, device)?,
        pp_comm::DType::Bf16 => Tensor::from_vec(buffer.into_bf16()?.reinterpret_into::<bf16>(), shape, device)?,
        pp_comm::DType::I64 => return Err(ModelError::unsupported(OP, device, DType::I64)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_go_and_come_back_without_a_copy() -> Result<()> {
        for dtype in [DType::F32, DType::F64, DType::BF16] {
            let tensor = Tensor::new(&[[1.0_f32, -2.5], [0.0, 3.0]], &Device::Cpu)?.to_dtype(dtype)?;
            let values = tensor.to_dtype(DType::F64)?.to_vec2::<f64>()?;
            let buffer = into_buffer(tensor)?;
            let address = buffer.as_bytes()?.as_ptr();
            let tensor = into_tensor(buffer, &Device::Cpu)?;
            assert_eq!(tensor.dtype(), dtype);
            assert_eq!(tensor.to_dtype(DType::F64)?.to_vec2::<f64>()?, values);
            assert_eq!(into_buffer(tensor)?.as_bytes()?.as_ptr(), address);
        }
        Ok(())
    }
}
