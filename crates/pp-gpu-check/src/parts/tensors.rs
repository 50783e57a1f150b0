//! Where the tensors of a part are.

use anyhow::Result;
use candle_core::Device;

use crate::conduct::Plan;
use crate::report::Ground;

/// The device that the plan's ground computes on: the GPU, or the processor where that is rehearsed.
pub(super) fn device(plan: Plan<'_>) -> Result<Device> {
    match plan.ground {
        #[cfg(feature = "cuda")]
        Ground::Cuda => Ok(pp_model::cuda::Gpu::new(plan.device as usize)?.device()),
        #[cfg(not(feature = "cuda"))]
        Ground::Cuda => anyhow::bail!("this build of pp-gpu-check has no CUDA"),
        Ground::Cpu | Ground::Emulator => Ok(Device::Cpu),
    }
}
