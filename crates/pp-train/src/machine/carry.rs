//! A rank's messages, over NCCL. What ranks do through the host stays there: the rendezvous, loss and norm, signs of life.

use anyhow::{Context, Result};
use pp_comm::{Communicators, HandOver, Member, NcclSpec, Waits};

use super::gpu::Gpu;
use crate::config::TrainConfig;
use crate::device::{DeviceKind, Nccl};
#[cfg(feature = "cuda")]
use crate::groups;

/// Makes the communicators of a run, which all its ranks do together.
pub(super) fn over_nccl(gpu: &Gpu, nccl: Nccl, config: &TrainConfig, member: Member) -> Result<Member> {
    let mut spec = NcclSpec::new(gpu.device.clone(), gpu.compute.clone());
    spec.communicators = if nccl.one_communicator { Communicators::One } else { Communicators::PerChannel };
    spec.config.max_ctas = nccl.max_ctas;
    match config.compute.device {
        // Tensors are on the host, and so is whatever a group gathers.
        DeviceKind::Cpu => {
            spec.hand_over = HandOver::Host;
            spec.waits = Waits::OnHost;
        }
        #[cfg(feature = "cuda")]
        DeviceKind::Cuda => {
            spec.hand_over = HandOver::Device;
            spec.waits = Waits::OnStream;
            spec.groups.extend(groups::embedding(config, member.endpoint.rank()));
            spec.allocator = Box::new(pp_model::cuda::CandleAllocator::of(&gpu.tensors)?);
        }
    }
    member.over_nccl(spec).context("NCCL does not connect the ranks")
}
