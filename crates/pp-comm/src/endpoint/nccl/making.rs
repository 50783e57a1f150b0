//! Making the communicators, all before step 0, and trying each with a small transfer: what cannot work shows here, with the
//! channel and the ranks it is about, and not in the middle of a step.

use std::sync::Arc;
use std::time::Duration;

use nccl_rs::{Comm, DataType, DeviceBytes, DeviceMemory, Group, NcclError, ReduceOp, Stream, UniqueId};
use pp_schedule::{Channel, Rank, Role};

use super::lane::{Lane, Op};
use super::plan::{Planned, agree, share_ids};
use super::spec::NcclSpec;
use crate::control::Control;
use crate::deadline::Deadline;
use crate::error::{CommError, Communicator};
use crate::message::DType;

/// Makes the communicators that this rank is in, in the global order: each is made by all its ranks before any of them goes on
/// to the next, and the order is one for all, so that no ranks wait for each other in a circle. All ranks get an error if one
/// does.
pub(super) fn make(
    control: &mut Control,
    channels: &[Channel],
    spec: &NcclSpec,
    limit: Duration,
) -> Result<Vec<Lane>, CommError> {
    let plan = agree(control, channels, (spec.communicators, &spec.groups), spec.minimum)?;
    let ids = share_ids(control, &plan)?;
    // The rest of the limit is for telling each other how it went.
    let deadline = Deadline::after(limit * 3 / 4);
    let lanes = make_all(control.rank(), plan.iter().zip(ids), spec, deadline).and_then(|lanes| {
        try_all(control.rank(), channels, &lanes, spec, deadline)?;
        Ok(lanes)
    });
    tell(control, lanes)
}

fn make_all<'a>(
    me: Rank,
    plan: impl Iterator<Item = (&'a Planned, UniqueId)>,
    spec: &NcclSpec,
    deadline: Deadline,
) -> Result<Vec<Lane>, CommError> {
    let mut lanes = Vec::new();
    for (Planned { of, ranks }, id) in plan {
        let Some(place) = ranks.iter().position(|&rank| rank == me) else { continue };
        let failed = |error| CommError::Nccl { of: of.clone(), error };
        let comm = Comm::init(&spec.device, id, ranks.len(), place, &spec.config, left(deadline)).map_err(failed)?;
        let stream = Stream::new(&spec.device).map_err(failed)?;
        lanes.push(Lane { of: of.clone(), comm, stream });
    }
    Ok(lanes)
}

/// Sends a small message over every channel, one channel after the other in the global order, and adds something up in every
/// group.
fn try_all(
    me: Rank,
    channels: &[Channel],
    lanes: &[Lane],
    spec: &NcclSpec,
    deadline: Deadline,
) -> Result<(), CommError> {
    for lane in lanes {
        match &lane.of {
            Communicator::Channel(channel) => {
                let peer = usize::from(channel.source == me);
                try_channel(me, *channel, lane, (spec, peer), deadline)?;
            }
            Communicator::All { .. } => {
                for &channel in channels.iter().filter(|channel| !crate::group::is_for_collectives(**channel)) {
                    let peer = if channel.source == me { channel.destination } else { channel.source };
                    try_channel(me, channel, lane, (spec, peer.idx()), deadline)?;
                }
            }
            Communicator::Group { .. } => try_group(lane, deadline).map_err(|error| lane.failed(error))?,
        }
    }
    Ok(())
}

/// What is sent over a channel to try it: something that tells it from others.
fn trial(channel: Channel) -> [u8; 16] {
    let words = [channel.source.0, channel.destination.0, channel.queue, !channel.queue];
    std::array::from_fn(|index| words[index / 4].to_le_bytes()[index % 4])
}

fn try_channel(
    me: Rank,
    channel: Channel,
    lane: &Lane,
    (spec, peer): (&NcclSpec, usize),
    deadline: Deadline,
) -> Result<(), CommError> {
    let (role, expected) = (if channel.source == me { Role::Send } else { Role::Receive }, trial(channel));
    let attempt = || {
        let bytes: &[u8] = if role == Role::Send { &expected } else { &[0; 16] };
        let memory: Arc<dyn DeviceMemory> = Arc::new(DeviceBytes::from_host(&lane.stream, bytes)?);
        // Four floats by their size: nothing computes with them.
        let op = Op { role, memory: Arc::clone(&memory), dtype: DType::F32, peer };
        lane.launch(vec![op], &spec.compute, left(deadline))?.wait(left(deadline))?;
        memory.to_host(&lane.stream, left(deadline))
    };
    match attempt() {
        Ok(found) if found == expected => Ok(()),
        Ok(found) => Err(CommError::System {
            what: format!("use {} for the {channel}", lane.of),
            reason: format!("a trial of {expected:02x?} arrived as {found:02x?}"),
        }),
        Err(error) => Err(CommError::Nccl { of: Communicator::Channel(channel), error }),
    }
}

/// Every rank gives 1.
fn try_group(lane: &Lane, deadline: Deadline) -> Result<(), NcclError> {
    let memory: Arc<dyn DeviceMemory> = Arc::new(DeviceBytes::from_host(&lane.stream, &1_i64.to_ne_bytes())?);
    let mut group = Group::new();
    group.all_reduce(&lane.comm, Arc::clone(&memory), Arc::clone(&memory), DataType::I64, ReduceOp::Sum)?;
    group.launch(&lane.stream, left(deadline))?.wait(left(deadline))?;
    let sum = memory.to_host(&lane.stream, left(deadline))?;
    if sum == (lane.comm.n_ranks() as i64).to_ne_bytes() {
        return Ok(());
    }
    let reason = format!("the trial sum over {} ranks is {sum:02x?}", lane.comm.n_ranks());
    Err(NcclError::Misuse { call: "ncclAllReduce", reason })
}

/// Has all ranks know whether it went well on each.
fn tell<T>(control: &mut Control, made: Result<T, CommError>) -> Result<T, CommError> {
    let fault = made.as_ref().err().map(ToString::to_string).unwrap_or_default();
    let faults = control.all_gather(fault.as_bytes());
    let made = made?;
    let faults = faults?;
    let found = (0..).map(Rank).zip(&faults).find(|(_, fault)| !fault.is_empty());
    match found {
        None => Ok(made),
        Some((rank, fault)) => Err(CommError::NoNccl { rank, reason: String::from_utf8_lossy(fault).into_owned() }),
    }
}

fn left(deadline: Deadline) -> Duration {
    deadline.remaining().unwrap_or_default()
}
