//! A collective under way, wherever its tensors are.

#[cfg(feature = "nccl")]
use super::device::DeviceJob;
use super::error::GroupError;
use super::host::HostJob;
use super::round::Round;
use crate::endpoint::Endpoint;
use crate::message::Buffer;

/// A collective under way, on one rank.
#[derive(Debug)]
pub(super) enum Job {
    Host(HostJob),
    #[cfg(feature = "nccl")]
    Device(DeviceJob),
}

impl Job {
    pub(super) const fn round(&self) -> &Round {
        match self {
            Self::Host(job) => job.round(),
            #[cfg(feature = "nccl")]
            Self::Device(job) => job.round(),
        }
    }

    /// Sees to it that all this rank has to do for the others is done: they then need it no more.
    pub(super) fn drive(&mut self, endpoint: &mut Endpoint) -> Result<(), GroupError> {
        match self {
            Self::Host(job) => job.drive(endpoint),
            #[cfg(feature = "nccl")]
            Self::Device(job) => job.drive(endpoint),
        }
    }

    /// The same if that needs no wait; says whether it is done.
    pub(super) fn advance(&mut self, endpoint: &mut Endpoint) -> Result<bool, GroupError> {
        #[cfg(not(feature = "nccl"))]
        let _ = endpoint;
        match self {
            // What is on the host is sent as soon as it can be; what is left needs a wait.
            Self::Host(job) => Ok(job.is_driven()),
            #[cfg(feature = "nccl")]
            Self::Device(job) => job.advance(endpoint),
        }
    }

    /// Waits for its end; gives what it made.
    pub(super) fn finish(&mut self, endpoint: &mut Endpoint) -> Result<Vec<Buffer>, GroupError> {
        match self {
            Self::Host(job) => job.finish(endpoint),
            #[cfg(feature = "nccl")]
            Self::Device(job) => job.finish(endpoint),
        }
    }
}
