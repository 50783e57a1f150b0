//! What an endpoint whose messages go between GPUs can do beside messages.

use nccl_rs::{Comm, Event, Group, NcclError, Shared};

use super::nccl::{GroupLaunch, NcclSpec, NcclTransport};
use super::transport::Transport;
use super::{Abandoned, Endpoint};
use crate::control::Control;
use crate::error::CommError;
use crate::message::Boundary;

impl Endpoint {
    /// The same over NCCL, if its channels go over links between processes.
    pub(crate) fn over_nccl(self, control: &mut Control, spec: NcclSpec) -> Result<Self, CommError> {
        let Self { rank, channels, deadline, recorder, meddler, transport, one_thread, .. } = self;
        let Transport::Socket(host) = transport else {
            let reason = "its channels do not go over links between processes, made by `join`".to_owned();
            return Err(CommError::NoNccl { rank, reason });
        };
        let transport = NcclTransport::new(control, &channels, host, spec, deadline)?;
        let (transport, abandoned) = (Transport::Nccl(Box::new(transport)), Abandoned::default());
        Ok(Self { rank, channels, deadline, recorder, meddler, transport, abandoned, one_thread })
    }

    /// Whether collectives of a group can go over a communicator of its own.
    pub(crate) fn has_device_group(&self, group: u32) -> bool {
        self.device().is_some_and(|nccl| nccl.has_group(group))
    }

    /// The point that the compute stream has come to: what is given to a group's operations has been made by then. None where the
    /// group has no communicator, as of all of these.
    ///
    /// # Errors
    /// [`CommError::Nccl`], or what the endpoint has ended with.
    pub(crate) fn mark_for_group(&self, group: u32) -> Option<Result<Event, CommError>> {
        self.device()?.mark_for_group(group)
    }

    /// A copy of something small in the device's memory.
    ///
    /// # Errors
    /// As [`Endpoint::mark_for_group`].
    pub(crate) fn copy_for_group(&self, group: u32, bytes: &[u8]) -> Option<Result<Shared, CommError>> {
        self.device()?.copy_for_group(group, bytes)
    }

    /// Launches what `build` puts into a group of operations on a group's communicator, after a point of the compute stream's
    /// work.
    ///
    /// # Errors
    /// As [`Endpoint::mark_for_group`].
    pub(crate) fn launch_on_group(
        &mut self,
        group: u32,
        after: &Event,
        build: impl for<'a> FnOnce(&mut Group<'a>, &'a Comm) -> Result<(), NcclError>,
    ) -> Option<Result<GroupLaunch, CommError>> {
        self.device_mut()?.launch_on_group(group, after, build)
    }

    /// Waits for what was launched: here, or has the compute stream wait, as the rank chose. `late` is the error that it is when
    /// that takes longer than the deadline; the endpoint ends with it.
    ///
    /// # Errors
    /// `late`, [`CommError::Nccl`], [`CommError::PeerLost`], or what the endpoint has ended with.
    pub(crate) fn finish_launch(&mut self, launch: GroupLaunch, late: CommError) -> Result<(), CommError> {
        let deadline = self.deadline;
        self.device_mut().map_or(Ok(()), |nccl| nccl.finish_launch(launch, deadline, late))
    }

    /// Memory on the device for a result that the stage will have. None where messages do not go between GPUs.
    ///
    /// # Errors
    /// [`CommError::Buffer`].
    pub(crate) fn allocate_on_device(&mut self, boundary: &Boundary) -> Option<Result<Shared, CommError>> {
        Some(self.device_mut()?.allocate_for_stage(boundary))
    }

    fn device(&self) -> Option<&NcclTransport> {
        match &self.transport {
            Transport::Nccl(nccl) => Some(nccl),
            _ => None,
        }
    }

    fn device_mut(&mut self) -> Option<&mut NcclTransport> {
        match &mut self.transport {
            Transport::Nccl(nccl) => Some(nccl),
            _ => None,
        }
    }
}
