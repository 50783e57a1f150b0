//! A rank's device, which is an emulated one.

use std::sync::Arc;

use nccl_rs::cudarc::driver::CudaStream;
use nccl_rs::{Device, NcclError, Stream};
use pp_comm::{Communicators, HandOver, NcclSpec, Waits};
use pp_schedule::Rank;

use crate::stage::SliceAllocator;

/// How messages go over NCCL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    pub(crate) communicators: Communicators,
    pub(crate) hand_over: HandOver,
    pub(crate) waits: Waits,
}

impl Way {
    /// A communicator per channel, tensors on the device, waits on the stream.
    pub(crate) const DEFAULT: Self =
        Self { communicators: Communicators::PerChannel, hand_over: HandOver::Device, waits: Waits::OnStream };

    /// For messages on the host.
    pub(crate) const HOST: Self = Self { hand_over: HandOver::Host, waits: Waits::OnHost, ..Self::DEFAULT };
}

/// A rank's device, and the stream on which it computes.
#[derive(Debug)]
pub(crate) struct Gpu {
    pub(crate) device: Device,
    pub(crate) stream: Arc<CudaStream>,
    pub(crate) compute: Stream,
}

impl Gpu {
    /// That of a rank: each has its own.
    pub(crate) fn of(rank: Rank) -> Result<Self, NcclError> {
        let device = Device::new(rank.idx())?;
        let stream = device.context().new_stream().expect("a stream");
        let compute = Stream::of(Arc::clone(&stream))?;
        Ok(Self { device, stream, compute })
    }

    /// What an endpoint over NCCL needs.
    pub(crate) fn spec(&self, Way { communicators, hand_over, waits }: Way) -> NcclSpec {
        let (stream, compute) = (Arc::clone(&self.stream), self.compute.clone());
        let allocator = Box::new(SliceAllocator { stream, compute });
        let base = NcclSpec::new(self.device.clone(), self.compute.clone());
        NcclSpec { allocator, communicators, hand_over, waits, ..base }
    }
}
