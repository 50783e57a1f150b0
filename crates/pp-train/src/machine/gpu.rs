//! A GPU, and the NCCL that is installed.

use std::fmt;

use anyhow::{Context, Result};
use nccl_rs::{Stream, Version};

use crate::config::TrainConfig;
use crate::device::{Carrier, DeviceKind};
use crate::world::GpuChoice;

/// The oldest NCCL that will do: 2.18 is the first with `ncclCommSplit`, and has communicators that do not block and whose blocks
/// are limited.
pub(super) const MINIMUM: Version = Version { major: 2, minor: 18, patch: 0 };

/// This rank's GPU.
#[derive(Debug)]
pub(super) struct Gpu {
    pub(super) device: nccl_rs::Device,
    /// What tensors are computed on; without any, what messages are copied to and from the host on.
    pub(super) compute: Stream,
    ordinal: usize,
    n_shown: usize,
    /// Where messages go over it.
    nccl: Option<Version>,
}

impl Gpu {
    /// Opens it; gives where tensors are beside it, which is on the processor where nothing is computed on the GPU.
    pub(super) fn open(choice: &GpuChoice, config: &TrainConfig) -> Result<(Self, candle_core::Device)> {
        let n_shown = nccl_rs::Device::count()?;
        let ordinal = choice.among(n_shown)?;
        let nccl = match config.carrier {
            Carrier::Nccl(_) => Some(nccl_rs::require_version(MINIMUM)?),
            Carrier::Host(_) => None,
        };
        let opened = match config.compute.device {
            DeviceKind::Cpu => for_messages(ordinal),
            #[cfg(feature = "cuda")]
            DeviceKind::Cuda => for_tensors(ordinal),
        };
        let Opened { device, compute, tensors } = opened.with_context(|| format!("GPU {ordinal} does not open"))?;
        Ok((Self { device, compute, ordinal, n_shown, nccl }, tensors))
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

/// A stream of its own: on the one that CUDA has by default, candle's work would wait for what it is to overlap with.
#[cfg(feature = "cuda")]
fn for_tensors(ordinal: usize) -> Result<Opened> {
    let tensors = candle_core::Device::new_cuda_with_stream(ordinal)?;
    let stream = tensors.as_cuda_device()?.cuda_stream();
    let device = nccl_rs::Device::of(stream.context().clone());
    Ok(Opened { device, compute: Stream::of(stream), tensors })
}
