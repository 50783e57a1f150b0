//! A collective of tensors on devices, under way: prepared when it is started, agreed on over the host, then launched on the
//! group's communicator.

use nccl_rs::{Event, Group as Launch, InFlight, NcclError, ReduceOp};

use super::calls::{Call, Calls, Task};
use super::error::GroupError;
use super::offer::{Offer, Offers};
use super::round::Round;
use crate::endpoint::{DeviceGroup, Endpoint, of_nccl};
use crate::error::CommError;
use crate::group::Group;
use crate::message::Buffer;

/// How far it is.
#[derive(Debug)]
enum Stage {
    /// The ranks tell each other what they ask for. Nothing is launched before all ask for the same: NCCL compares nothing, and
    /// would hang, or write where it should not.
    Agreeing { offers: Offers, calls: Calls, ready: Event },
    /// It is on the device.
    Launched { in_flight: Vec<InFlight>, made: Vec<Buffer> },
    /// It failed, or its results were given.
    Over,
}

/// A collective under way, on one rank.
#[derive(Debug)]
pub(super) struct DeviceJob {
    round: Round,
    stage: Stage,
}

impl DeviceJob {
    /// Tells the others what it is to be, and prepares the rest. What is given must have been made by what is on the compute stream
    /// now; what comes there later does not hold it up.
    pub(super) fn start(
        round: Round,
        asked: Offer,
        task: Task,
        endpoint: &mut Endpoint,
    ) -> Result<Self, GroupError> {
        let mut offers = Offers::new(asked);
        for place in round.group.others() {
            offers.post(&round, endpoint, place)?;
        }
        let (place, n_ranks) = (round.group.place(), round.group.n_ranks());
        let mut device = device(&round.group, endpoint)?;
        let mut allocate = |boundary: &_| Ok(device.allocate(boundary)?);
        let calls = Calls::of(task, place, n_ranks, &mut allocate)?;
        let ready = device.ready()?;
        Ok(Self { round, stage: Stage::Agreeing { offers, calls, ready } })
    }

    pub(super) const fn round(&self) -> &Round {
        &self.round
    }

    /// Launches it, if that was not done, once all ranks have said that they ask for the same.
    pub(super) fn drive(&mut self, endpoint: &mut Endpoint) -> Result<(), GroupError> {
        match std::mem::replace(&mut self.stage, Stage::Over) {
            Stage::Agreeing { offers, calls, ready } => {
                offers.check(&self.round, endpoint)?;
                let device = device(&self.round.group, endpoint)?;
                let in_flight = launch(&device, &calls, &ready).map_err(|error| device.failed(error))?;
                self.stage = Stage::Launched { in_flight, made: calls.made };
            }
            stage => self.stage = stage,
        }
        Ok(())
    }

    /// The same if all ranks have said so; says whether it is launched.
    pub(super) fn advance(&mut self, endpoint: &mut Endpoint) -> Result<bool, GroupError> {
        if let Stage::Agreeing { offers, .. } = &self.stage
            && !offers.have_come(endpoint)
        {
            return Ok(false);
        }
        self.drive(endpoint)?;
        Ok(true)
    }

    /// Waits for its end, as the endpoint waits; gives what it made.
    pub(super) fn finish(&mut self, endpoint: &mut Endpoint) -> Result<Vec<Buffer>, GroupError> {
        self.drive(endpoint)?;
        let Stage::Launched { in_flight, made } = std::mem::replace(&mut self.stage, Stage::Over) else {
            return Ok(Vec::new());
        };
        let Round { collective, number: round, ref group } = self.round;
        let (group, limit) = (group.id(), endpoint.deadline());
        let device = device(&self.round.group, endpoint)?;
        for calls in in_flight {
            device.wait(calls, CommError::DeviceDeadline { collective, group, round, limit })?;
        }
        Ok(made)
    }
}

/// What a group has on this rank's device.
pub(super) fn device<'a>(group: &Group, endpoint: &'a mut Endpoint) -> Result<DeviceGroup<'a>, GroupError> {
    let (group, rank) = (group.id(), endpoint.rank());
    endpoint.device_group(group).ok_or(GroupError::NoCommunicator { rank, group })
}

fn launch(device: &DeviceGroup<'_>, calls: &Calls, ready: &Event) -> Result<Vec<InFlight>, NcclError> {
    let (comm, dtype) = (device.comm(), of_nccl(calls.dtype));
    device.stream().wait(ready)?;
    let mut in_flight = Vec::new();
    for calls in &calls.groups {
        let mut together = Launch::new();
        for call in calls {
            match call.clone() {
                Call::AllReduce { send, recv } => together.all_reduce(comm, send, recv, dtype, ReduceOp::Sum)?,
                Call::AllGather { send, recv } => together.all_gather(comm, send, recv, dtype)?,
                Call::ReduceScatter { send, recv } => {
                    together.reduce_scatter(comm, send, recv, dtype, ReduceOp::Sum)?;
                }
                Call::Broadcast { buffer, root } => together.broadcast(comm, buffer, dtype, root)?,
                Call::Send { buffer, to } => together.send(comm, buffer, dtype, to)?,
                Call::Recv { buffer, from } => together.recv(comm, buffer, dtype, from)?,
            }
        }
        in_flight.push(together.launch(device.stream(), device.limit())?);
    }
    Ok(in_flight)
}
