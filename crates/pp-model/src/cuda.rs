//! A rank's GPU: candle's device on it, and the same GPU and stream as the endpoint knows them. No test without a GPU runs this.

use std::error::Error;
use std::sync::Arc;

use candle_core::cuda_backend::CudaDevice;
use candle_core::{DType, Device};
use half::bf16;
use pp_comm::nccl_rs::{self, DeviceMemory, Stream};
use pp_comm::{Boundary, DeviceAllocator};

use crate::chunk::Numbers;
use crate::error::{ModelError, Result};

/// One GPU, with the stream that a rank computes on.
#[derive(Clone, Debug)]
pub struct Gpu {
    device: CudaDevice,
    compute: Stream,
}

impl Gpu {
    /// The GPU of that number among those that the process may see, with a compute stream of its own.
    ///
    /// # Errors
    /// [`crate::ModelError::Nccl`] on a machine without a driver or without that GPU; what the driver says.
    pub fn new(ordinal: usize) -> Result<Self> {
        // First: a program that is linked lazily has no other way to CUDA, and their errors say what is missing.
        nccl_rs::open_cuda_libraries()?;
        nccl_rs::Device::new(ordinal)?;
        let device = CudaDevice::new_with_stream(ordinal)?;
        let compute = Stream::of(device.cuda_stream())?;
        Ok(Self { device, compute })
    }

    /// How many GPUs the process may see.
    ///
    /// # Errors
    /// [`crate::ModelError::Nccl`] on a machine without a driver.
    pub fn count() -> Result<usize> {
        nccl_rs::open_cuda_libraries()?;
        Ok(nccl_rs::Device::count()?)
    }

    /// As candle knows it.
    pub fn device(&self) -> Device {
        Device::Cuda(self.device.clone())
    }

    /// As the endpoint knows it.
    pub fn nccl(&self) -> &nccl_rs::Device {
        self.compute.device()
    }

    /// The stream that tensors are computed on.
    pub fn compute(&self) -> &Stream {
        &self.compute
    }

    /// Values of `dtype` (`f32` or `bf16`) on this GPU; drawn on the CPU, so that they are those of any other device.
    pub fn numbers(&self, seed: u64, dtype: DType) -> Numbers {
        Numbers { seed, dtype, device: self.device() }
    }

    /// Gives memory for messages that become tensors of this GPU without a copy.
    pub fn allocator(&self) -> CandleAllocator {
        CandleAllocator { device: self.device.clone() }
    }
}

/// Memory of candle's own for messages that arrive, allocated and freed in the order of the compute stream.
///
/// It is zeroed, on that stream: memory that is not initialised is not to be had from candle in safe code. That costs one write of
/// the message.
#[derive(Clone, Debug)]
pub struct CandleAllocator {
    device: CudaDevice,
}

impl CandleAllocator {
    /// Of a device of candle's.
    ///
    /// # Errors
    /// [`crate::ModelError::Unsupported`] where that is not a GPU.
    pub fn of(device: &Device) -> Result<Self> {
        match device {
            Device::Cuda(device) => Ok(Self { device: device.clone() }),
            device => Err(ModelError::unsupported("an allocator of device memory", device, DType::U8)),
        }
    }
}

impl DeviceAllocator for CandleAllocator {
    fn allocate(&mut self, boundary: &Boundary) -> Result<Arc<dyn DeviceMemory>, Box<dyn Error + Send + Sync>> {
        let len = boundary.n_elements();
        Ok(match boundary.dtype() {
            pp_comm::DType::F32 => Arc::new(self.device.alloc_zeros::<f32>(len)?),
            pp_comm::DType::F64 => Arc::new(self.device.alloc_zeros::<f64>(len)?),
            pp_comm::DType::I64 => Arc::new(self.device.alloc_zeros::<i64>(len)?),
            pp_comm::DType::Bf16 => Arc::new(self.device.alloc_zeros::<bf16>(len)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On machines with and without one.
    #[test]
    fn a_gpu_that_is_not_there_is_a_typed_error() {
        assert!(matches!(Gpu::new(4321), Err(ModelError::Nccl(_))));
        assert!(matches!(CandleAllocator::of(&Device::Cpu), Err(ModelError::Unsupported { .. })));
    }
}
