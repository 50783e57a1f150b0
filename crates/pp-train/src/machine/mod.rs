//! What a rank computes on and what its messages go through, opened before it meets the others.
//!
//! | file | what is in it |
//! |---|---|
//! | `ready` | ranks tell each other that each has what it needs, or why not |
//! | `gpu` | a GPU, and the NCCL that is installed |
//! | `carry` | a rank's messages, over NCCL |

#[cfg(feature = "nccl")]
mod carry;
#[cfg(feature = "nccl")]
mod gpu;
mod ready;

use anyhow::Result;
use candle_core::Device;
use pp_comm::Member;
use pp_model::Numbers;

use crate::config::TrainConfig;
use crate::device::NumberType;

pub(crate) use ready::all_ready;

/// What a rank computes on and sends by, opened.
#[derive(Debug)]
pub struct Machine {
    #[cfg(feature = "nccl")]
    gpu: Option<gpu::Gpu>,
}

impl Machine {
    /// Opens what the configuration says. What needs no GPU always works.
    ///
    /// # Errors
    /// Without a driver, a GPU of its own, or an NCCL that is recent enough.
    pub fn open(config: &TrainConfig) -> Result<Self> {
        #[cfg(feature = "nccl")]
        if let Some(choice) = &config.gpu {
            return Ok(Self { gpu: Some(gpu::Gpu::open(choice, config)?) });
        }
        let _ = config;
        Ok(Self {
            #[cfg(feature = "nccl")]
            gpu: None,
        })
    }

    /// How values are made on it.
    pub(crate) fn numbers(&self, config: &TrainConfig) -> Numbers {
        let dtype = match config.compute.dtype {
            NumberType::F32 => candle_core::DType::F32,
            NumberType::Bf16 => candle_core::DType::BF16,
        };
        Numbers { seed: config.seed, dtype, device: self.device() }
    }

    /// Has a rank's messages go through what the configuration says; all ranks do so together.
    ///
    /// # Errors
    /// When NCCL does not connect all ranks.
    pub(crate) fn carry(&self, config: &TrainConfig, member: Member) -> Result<Member> {
        #[cfg(feature = "nccl")]
        if let (Some(gpu), crate::device::Carrier::Nccl(nccl)) = (&self.gpu, &config.carrier)
            && member.control.n_ranks() > 1
        {
            return carry::over_nccl(gpu, *nccl, config, member);
        }
        let _ = config;
        Ok(member)
    }

    /// Where tensors are.
    fn device(&self) -> Device {
        #[cfg(feature = "nccl")]
        if let Some(gpu) = &self.gpu {
            return gpu.tensors.clone();
        }
        Device::Cpu
    }

    /// The version of NCCL that messages go over, where they do.
    pub(crate) fn nccl_version(&self) -> Option<String> {
        #[cfg(feature = "nccl")]
        return self.gpu.as_ref().and_then(gpu::Gpu::nccl).map(|version| version.to_string());
        #[cfg(not(feature = "nccl"))]
        None
    }

    /// What is said of it; nothing where it is the processor alone.
    pub(crate) fn told(&self) -> Option<String> {
        #[cfg(feature = "nccl")]
        return self.gpu.as_ref().map(ToString::to_string);
        #[cfg(not(feature = "nccl"))]
        None
    }
}
