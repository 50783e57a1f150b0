//! The collectives of one group, of tensors on devices.

use super::calls::Task;
use super::comm::{GroupComm, offer, the_one};
use super::device::{DeviceJob, there};
use super::error::GroupError;
use super::job::Job;
use super::offer::{Memory, Offer};
use super::pending::Pending;
use crate::collective::Collective;
use crate::endpoint::Endpoint;
use crate::message::{Boundary, Buffer, DType};

impl GroupComm {
    /// Starts a barrier of the ranks' devices: what a rank puts on its compute stream after the wait runs only once all that every
    /// rank had put on its own before the start is done.
    ///
    /// # Errors
    /// [`GroupError`], as all of these.
    pub fn start_device_barrier(&mut self, endpoint: &mut Endpoint) -> Result<Pending<()>, GroupError> {
        let memory = there(endpoint.copy_for_group(self.group().id(), &0_i64.to_ne_bytes()), self.group())??;
        let given = Buffer::on_device(Boundary::new(DType::I64, &[1])?, memory)?;
        let asked = offer(given.boundary().clone());
        self.start_on_device(endpoint, Collective::Barrier, asked, Task::Barrier { given }, |_| Ok(()))
    }

    /// Starts a broadcast as [`GroupComm::start_broadcast`] does, of a tensor that is to be on the devices of all ranks. Those that
    /// give nothing have no tensor that says so by itself, so that this has a name of its own.
    ///
    /// # Errors
    /// As [`GroupComm::start_broadcast`], and [`BufferError::OnHost`](crate::BufferError::OnHost) where the root's tensor is not on
    /// its device.
    pub fn start_device_broadcast(
        &mut self,
        endpoint: &mut Endpoint,
        root: usize,
        boundary: &Boundary,
        buffer: Option<Buffer>,
    ) -> Result<Pending<Buffer>, GroupError> {
        self.check_broadcast(root, boundary, buffer.as_ref())?;
        if let Some(buffer) = &buffer {
            buffer.as_device()?;
        }
        let asked = Offer { root: Some(root), ..offer(boundary.clone()) };
        let task = Task::Broadcast { root, boundary: boundary.clone(), given: buffer };
        self.start_on_device(endpoint, Collective::Broadcast, asked, task, the_one)
    }

    /// [`GroupComm::start_device_barrier`], waited for.
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn device_barrier(&mut self, endpoint: &mut Endpoint) -> Result<(), GroupError> {
        self.start_device_barrier(endpoint)?.wait(endpoint)
    }

    /// [`GroupComm::start_device_broadcast`], waited for.
    ///
    /// # Errors
    /// [`GroupError`].
    pub fn device_broadcast(
        &mut self,
        endpoint: &mut Endpoint,
        root: usize,
        boundary: &Boundary,
        buffer: Option<Buffer>,
    ) -> Result<Buffer, GroupError> {
        self.start_device_broadcast(endpoint, root, boundary, buffer)?.wait(endpoint)
    }

    pub(super) fn start_on_device<T>(
        &mut self,
        endpoint: &mut Endpoint,
        collective: Collective,
        asked: Offer,
        task: Task,
        output: fn(Vec<Buffer>) -> Result<T, GroupError>,
    ) -> Result<Pending<T>, GroupError> {
        there(endpoint.has_device_group(self.group().id()).then_some(()), self.group())?;
        let asked = Offer { memory: Memory::Device, ..asked };
        let begin = |round, endpoint: &mut Endpoint| DeviceJob::start(round, asked, task, endpoint).map(Job::Device);
        self.start(endpoint, collective, begin, output)
    }
}
