//! Channels over NCCL, between GPUs.
//!
//! NCCL moves bytes and knows nothing of them: not which message they are, nor, reliably, how many. So every channel keeps its
//! link between the hosts, and for every message that goes over NCCL a **note** goes over that link, which says what it is. The
//! launch does not wait for it: a receive is on the device as soon as it is posted, and a note that is not the one expected ends
//! the endpoint with the same error as on every other transport. By the notes, too, a send is complete only when its receive
//! was posted, and a peer that dies shows at once.
//!
//! - [`spec`]: what a rank wants; [`plan`]: which communicators that makes for all, in one order; [`making`]: making and trying
//!   them before step 0;
//! - [`lane`]: a communicator and its stream; [`launches`], [`queue`], [`notes`]: what is under way;
//! - [`watch`]: the thread that aborts rather than have anything hang;
//! - [`post`], [`wait`], [`close`]: what the endpoint does; [`collective`]: what groups launch.
//!
//! # Streams
//! Every communicator has a stream of its own. At a post, an event is recorded on the compute stream and the communicator's
//! stream waits for it: what is sent was made before, and what is received into was allocated before. At a wait, it is the
//! other way round: the compute stream waits for the transfer's event ([`Waits::OnStream`]), or the rank itself does
//! ([`Waits::OnHost`]). Nothing is left to cudarc's own tracking of slices, which keeps one reader only.
//!
//! # Why memory may be used anew early
//! With waits on the stream, the executor gives a buffer up while the device may still read it. That is right because memory is
//! allocated and freed in the order of the compute stream: the free stands behind the wait for the transfer's event, so that
//! whoever gets the memory next gets it after the transfer, and what is put on a communicator's stream for it waits for an event
//! of the compute stream that is later still. Until its wait, a transfer's memory is held by what was launched; of transfers
//! that nobody waits for, by the communicator until they are complete.

mod close;
mod collective;
mod lane;
mod launches;
mod making;
mod notes;
mod plan;
mod post;
mod queue;
mod spec;
mod wait;
mod watch;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use nccl_rs::Stream;
use pp_schedule::{Channel, Rank, Role};

use super::links::SocketTransport;
use crate::control::Control;
use crate::error::{CommError, Communicator};
use crate::group::is_for_collectives;
use crate::message::{DeviceAllocator, Label};
pub(crate) use collective::GroupLaunch;
use lane::Lane;
pub(crate) use lane::of_nccl;
use launches::Launches;
use post::Started;
use queue::Queue;
pub use spec::{Communicators, HandOver, NcclSpec, Waits};
use watch::Watchdog;

/// One rank's ends of its channels.
#[derive(Debug)]
pub(crate) struct NcclTransport {
    host: SocketTransport,
    hand_over: HandOver,
    waits: Waits,
    /// How long a launch's part on the host may take.
    limit: Duration,
    compute: Stream,
    /// For copies to the host, which must not stand behind transfers that were launched since.
    copies: Stream,
    allocator: Allocator,
    lanes: Vec<Lane>,
    /// By link: the way of what goes over NCCL.
    routes: Vec<Option<Route>>,
    /// The groups' lanes, by their numbers.
    groups: BTreeMap<u32, usize>,
    /// By role, lane and peer: how many messages were posted.
    turns: BTreeMap<(Role, usize, usize), i64>,
    /// By link.
    queues: Vec<Queue>,
    launches: Launches,
    /// What is being posted together on the one communicator.
    together: Option<Vec<Started>>,
    watch: Watchdog,
}

/// Which communicator a channel's messages go over, and the other rank's place in it.
#[derive(Clone, Copy, Debug)]
struct Route {
    lane: usize,
    peer: usize,
}

/// Somebody else's, who may not care to be shown.
struct Allocator(Box<dyn DeviceAllocator>);

impl fmt::Debug for Allocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Allocator")
    }
}

impl NcclTransport {
    /// Makes the communicators, over the control plane, and takes over the links between the hosts.
    pub(crate) fn new(
        control: &mut Control,
        channels: &[Channel],
        host: SocketTransport,
        spec: NcclSpec,
        limit: Duration,
    ) -> Result<Self, CommError> {
        let rank = control.rank();
        let Some(alarm) = control.alarm().cloned() else {
            let reason = "its channels are in the memory of one process; ranks that join over sockets can".to_owned();
            return Err(CommError::NoNccl { rank, reason });
        };
        let lanes = making::make(control, channels, &spec, limit)?;
        let NcclSpec { device, compute, allocator, communicators, hand_over, waits, .. } = spec;
        let copies = Stream::new(&device).map_err(|error| no_nccl(rank, &error))?;
        let route = |channel: &Channel| {
            let lane = lanes.iter().position(|lane| match &lane.of {
                Communicator::Channel(of) => of == channel,
                Communicator::All { .. } => !is_for_collectives(*channel),
                Communicator::Group { .. } => false,
            })?;
            let other = if channel.source == rank { channel.destination } else { channel.source };
            let peer = match communicators {
                Communicators::PerChannel => usize::from(channel.source == rank),
                Communicators::One => other.idx(),
            };
            Some(Route { lane, peer })
        };
        let group = |(index, lane): (usize, &Lane)| match lane.of {
            Communicator::Group { id, .. } => Some((id, index)),
            _ => None,
        };
        let handles = lanes.iter().map(|lane| (lane.of.clone(), lane.comm.abort_handle())).collect();
        let eyes = channels.iter().copied().zip(host.eyes()).collect();
        let watch = Watchdog::start(rank, &alarm, handles, eyes)?;
        Ok(Self {
            hand_over,
            // What is to be on the host must have arrived.
            waits: if hand_over == HandOver::Host { Waits::OnHost } else { waits },
            limit,
            compute,
            copies,
            allocator: Allocator(allocator),
            routes: channels.iter().map(route).collect(),
            groups: lanes.iter().enumerate().filter_map(group).collect(),
            lanes,
            host,
            turns: BTreeMap::new(),
            queues: channels.iter().map(|_| Queue::default()).collect(),
            launches: Launches::new(watch.register()),
            together: None,
            watch,
        })
    }

    /// What a link goes over.
    pub(super) fn name(&self, link: usize) -> &'static str {
        if self.routes[link].is_some() { "nccl" } else { self.host.name(link) }
    }

    /// The way of a message over NCCL: tensors between stages have one; all else goes over the host link.
    fn route(&self, link: usize, label: Label) -> Option<Route> {
        match label {
            Label::Tensor { .. } => self.routes[link],
            Label::Shapes(_) | Label::Piece { .. } => None,
        }
    }

    /// Ends the endpoint because of an error, unless it has ended before; gives the first cause.
    pub(super) fn fail(&self, error: CommError) -> CommError {
        self.watch.fail(error)
    }

    #[cfg(test)]
    pub(super) fn n_held(&self) -> usize {
        self.queues.iter().map(Queue::n_held).sum::<usize>() + self.launches.n_held()
    }
}

/// A rank whose device does not do what is needed.
fn no_nccl(rank: Rank, error: &nccl_rs::NcclError) -> CommError {
    CommError::NoNccl { rank, reason: error.to_string() }
}
