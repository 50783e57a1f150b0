//! A collective of tensors on devices, under way: prepared when it is started, agreed on over the host, then launched on the
//! group's communicator.

use nccl_rs::{Comm, Event, Group as Launch, NcclError, ReduceOp};

use super::calls::{Call, Calls, Task};
use super::error::GroupError;
use super::offer::{Offer, Offers};
use super::round::Round;
use crate::endpoint::{Endpoint, GroupLaunch, of_nccl};
use crate::error::CommError;
use crate::group::Group;
use crate::message::{Boundary, Buffer, DType};

/// How far it is.
#[derive(Debug)]
enum Stage {
    /// The ranks tell each other what they ask for. Nothing is launched before all ask for the same: NCCL compares nothing, and
    /// would hang, or write where it should not.
    Agreeing { offers: Offers, calls: Calls, ready: Event },
    /// It is on the device.
    Launched { in_flight: Vec<GroupLaunch>, made: Vec<Buffer> },
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
    pub(super) fn start(round: Round, asked: Offer, task: Task, endpoint: &mut Endpoint) -> Result<Self, GroupError> {
        let mut offers = Offers::new(asked);
        for place in round.group.others() {
            offers.post(&round, endpoint, place)?;
        }
        let (place, n_ranks) = (round.group.place(), round.group.n_ranks());
        let mut allocate = |boundary: &Boundary| -> Result<Buffer, GroupError> {
            let memory = there(endpoint.allocate_on_device(boundary), &round.group)??;
            Ok(Buffer::on_device(boundary.clone(), memory)?)
        };
        let calls = Calls::of(task, place, n_ranks, &mut allocate)?;
        let ready = there(endpoint.mark_for_group(round.group.id()), &round.group)??;
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
                let mut in_flight = Vec::new();
                for group in calls.groups {
                    let launched = endpoint.launch_on_group(self.round.group.id(), &ready, built(calls.dtype, group));
                    in_flight.push(there(launched, &self.round.group)??);
                }
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
        for calls in in_flight {
            endpoint.finish_launch(calls, CommError::DeviceDeadline { collective, group, round, limit })?;
        }
        Ok(made)
    }
}

/// What a group has on this rank's device.
pub(super) fn there<T>(found: Option<T>, group: &Group) -> Result<T, GroupError> {
    found.ok_or_else(|| GroupError::NoCommunicator { rank: group.me(), group: group.id() })
}

/// What puts calls into a launch.
fn built(dtype: DType, calls: Vec<Call>) -> impl for<'a> FnOnce(&mut Launch<'a>, &'a Comm) -> Result<(), NcclError> {
    let dtype = of_nccl(dtype);
    move |launch, comm| {
        calls.into_iter().try_for_each(|call| match call {
            Call::AllReduce { send, recv } => launch.all_reduce(comm, send, recv, dtype, ReduceOp::Sum),
            Call::AllGather { send, recv } => launch.all_gather(comm, send, recv, dtype),
            Call::ReduceScatter { send, recv } => launch.reduce_scatter(comm, send, recv, dtype, ReduceOp::Sum),
            Call::Broadcast { buffer, root } => launch.broadcast(comm, buffer, dtype, root),
            Call::Send { buffer, to } => launch.send(comm, buffer, dtype, to),
            Call::Recv { buffer, from } => launch.recv(comm, buffer, dtype, from),
        })
    }
}
