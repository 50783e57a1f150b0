//! A GPU, and the NCCL that is installed.

use std::fmt;

use anyhow::{Context, Result};
use pp_comm::NcclSpec;
use pp_comm::nccl_rs::{self, Stream, Version};

use crate::config::TrainConfig;
use crate::device::{Carrier, DeviceKind};
use crate::world::GpuChoice;

/// This rank's GPU.
#[derive(Debug)]
pub(super) struct Gpu {
    pub(super) device: nccl_rs::Device,
    /// What tensors are computed on; without any, what messages are copied to and from the host on.
    pub(super) compute: Stream,
    /// Where tensors are: here, or on the processor where nothing is computed here.
    pub(super) tensors: candle_core::Device,
    ordinal: usize,
    n_shown: usize,
    /// Where messages go over it.
    nccl: Option<Version>,
}

impl Gpu {
    /// Opens it, and what is needed beside it.
    ///
    /// # Errors
    /// What is missing: the driver, a GPU for this rank, NCCL.
    pub(super) fn open(choice: &GpuChoice, config: &TrainConfig) -> Result<Self> {
        let n_shown = nccl_rs::Device::count().context("there is no GPU to use")?;
        let ordinal = choice.among(n_shown)?;
        let nccl = match config.carrier {
            Carrier::Nccl(_) => Some(nccl_rs::require_version(NcclSpec::MINIMUM)?),
            Carrier::Host(_) => None,
        };
        let opened = match config.compute.device {
            DeviceKind::Cpu => for_messages(ordinal),
            #[cfg(feature = "cuda")]
            DeviceKind::Cuda => for_tensors(ordinal, config),
        };
        let Opened { device, compute, tensors } = opened.with_context(|| format!("GPU {ordinal} does not open"))?;
        Ok(Self { device, compute, tensors, ordinal, n_shown, nccl })
    }

    /// The NCCL that messages go over, where they do.
    pub(super) fn nccl(&self) -> Option<Version> {
        self.nccl
    }
}

impl fmt::Display for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GPU {} of {}", self.ordinal, self.n_shown)?;
        self.nccl.map_or(Ok(()), |version| write!(f, ", NCCL {version}"))
    }
}

struct Opened {
    device: nccl_rs::Device,
    compute: Stream,
    tensors: candle_core::Device,
}

fn for_messages(ordinal: usize) -> Result<Opened> {
    let device = nccl_rs::Device::new(ordinal)?;
    let compute = Stream::new(&device)?;
    Ok(Opened { device, compute, tensors: candle_core::Device::Cpu })
}

#[cfg(feature = "cuda")]
fn for_tensors(ordinal: usize, config: &TrainConfig) -> Result<Opened> {
    let gpu = pp_model::cuda::Gpu::new(ordinal)?;
    let (device, compute, tensors) = (gpu.nccl().clone(), gpu.compute().clone(), gpu.device());
    let (_, n_bytes) = device.context().mem_get_info()?;
    let rank = pp_schedule::Rank(config.place.rank());
    if let Some(reason) = crate::footprint::beyond_gpu(config.sizes(), rank, n_bytes as f64) {
        anyhow::bail!(reason);
    }
    Ok(Opened { device, compute, tensors })
}
