//! In a GPU's memory. No test without a GPU runs this.
//!
//! A tensor's memory is one of cudarc's slices, allocated and freed in the order of the compute stream. It is taken out of the
//! tensor and put into the buffer as it is, and the other way round. Memory that something else still holds is copied on the
//! compute stream: a tensor owns its memory.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use candle_core::cuda_backend::cudarc::driver::{CudaSlice, DeviceRepr, ValidAsZeroBits};
use candle_core::cuda_backend::{CudaDType, CudaDevice, CudaStorage, WrapErr};
use candle_core::op::BackpropOp;
use candle_core::{DType, Device, Storage, Tensor};
use half::bf16;
use pp_comm::Buffer;
use pp_comm::nccl_rs::DeviceMemory;

use super::{OP, boundary};
use crate::error::{ModelError, Result};
use crate::ops::lend::{Lent, lend};

/// Moves a tensor's memory into a buffer.
pub(super) fn into_buffer(tensor: Tensor, device: &CudaDevice) -> Result<Buffer> {
    let place = Device::Cuda(device.clone());
    let boundary = boundary(&place, tensor.dtype(), tensor.dims())?;
    let memory: Arc<dyn DeviceMemory> = match tensor.dtype() {
        DType::F32 => Arc::new(take::<f32>(tensor, device)?),
        DType::F64 => Arc::new(take::<f64>(tensor, device)?),
        DType::BF16 => Arc::new(take::<bf16>(tensor, device)?),
        dtype => return Err(ModelError::unsupported(OP, &place, dtype)),
    };
    Ok(Buffer::on_device(boundary, memory)?)
}

/// Moves a buffer's memory into a tensor.
pub(super) fn into_tensor(buffer: Buffer, device: &CudaDevice) -> Result<Tensor> {
    let (shape, dtype) = (buffer.boundary().shape().to_vec(), buffer.boundary().dtype());
    let memory = buffer.into_device()?;
    let storage = match dtype {
        pp_comm::DType::F32 => storage::<f32>(memory, device)?,
        pp_comm::DType::F64 => storage::<f64>(memory, device)?,
        pp_comm::DType::Bf16 => storage::<bf16>(memory, device)?,
        pp_comm::DType::I64 => return Err(ModelError::unsupported(OP, &Device::Cuda(device.clone()), DType::I64)),
    };
    Ok(Tensor::from_storage(Storage::Cuda(storage), shape, BackpropOp::none(), false))
}

/// The memory of a tensor that nothing else holds, which is left with one element; of a part of a larger one, a copy.
fn take<T>(tensor: Tensor, device: &CudaDevice) -> Result<CudaSlice<T>>
where
    T: CudaDType + DeviceRepr + ValidAsZeroBits,
{
    let rest = device.alloc_zeros::<T>(1)?;
    let taken = lend(OP, &tensor, |storage, layout| {
        let fills = layout.contiguous_offsets().is_some_and(|(start, end)| start == 0 && Some(end) == storage.len());
        match storage {
            Lent::Cuda(storage) if fills => {
                Some(T::as_cuda_slice_mut(storage).map(|slice| std::mem::replace(slice, rest)))
            }
            _ => None,
        }
    })?;
    match taken {
        Some(slice) => Ok(slice?),
        None => take(tensor.force_contiguous()?, device),
    }
}

/// A storage of memory that was a slice of `T` on the compute stream.
fn storage<T>(memory: Arc<dyn DeviceMemory>, device: &CudaDevice) -> Result<CudaStorage>
where
    T: CudaDType + DeviceRepr + Debug + Send + Sync + 'static,
{
    let memory: Arc<dyn Any + Send + Sync> = memory;
    let slice = memory.downcast::<CudaSlice<T>>().map_err(|_| ModelError::ForeignMemory)?;
    if slice.stream().cu_stream() != device.cuda_stream().cu_stream() {
        return Err(ModelError::ForeignMemory);
    }
    let slice = match Arc::try_unwrap(slice) {
        Ok(slice) => slice,
        Err(shared) => shared.try_clone().w()?,
    };
    Ok(CudaStorage::wrap_cuda_slice(slice, device.clone()))
}
