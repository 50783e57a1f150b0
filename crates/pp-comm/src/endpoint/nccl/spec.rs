//! How a member's channels become NCCL's.

use std::fmt;

use nccl_rs::{CommConfig, Device, Stream, Version};

use crate::group::Group;
use crate::message::{DeviceAllocator, StreamAllocator};

/// What [`Member::over_nccl`](crate::Member::over_nccl) is given.
pub struct NcclSpec {
    /// The rank's GPU. Ranks of one host have one each.
    pub device: Device,
    /// Where the rank computes: what is sent was made there, and what is received is used there.
    pub compute: Stream,
    /// Where the memory of received messages comes from.
    pub allocator: Box<dyn DeviceAllocator>,
    /// The groups that this rank is in and whose collectives take buffers on the device. Each gets a communicator.
    pub groups: Vec<Group>,
    /// How many communicators the channels have. All ranks give the same.
    pub communicators: Communicators,
    /// Where the rank's messages are. Each rank may choose its own.
    pub hand_over: HandOver,
    /// Where it is waited for messages. Each rank may choose its own.
    pub waits: Waits,
    /// The oldest NCCL that will do.
    pub minimum: Version,
    /// Settings of every communicator. Where there are many, `max_ctas` should be small: see ADR 12.
    pub config: CommConfig,
}

impl NcclSpec {
    /// The oldest NCCL that this crate is meant for: what it needs of a communicator's configuration is in every later one.
    pub const MINIMUM: Version = Version { major: 2, minor: 18, patch: 0 };

    /// What a stage that computes on a stream of a device needs: a communicator per channel, messages on the device, waits on
    /// the stream, no groups.
    pub fn new(device: Device, compute: Stream) -> Self {
        Self {
            device,
            allocator: Box::new(StreamAllocator::new(compute.clone())),
            compute,
            groups: Vec::new(),
            communicators: Communicators::default(),
            hand_over: HandOver::default(),
            waits: Waits::default(),
            minimum: Self::MINIMUM,
            config: CommConfig::default(),
        }
    }
}

impl fmt::Debug for NcclSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { device, compute, groups, communicators, hand_over, waits, minimum, config, .. } = self;
        let mut fields = f.debug_struct("NcclSpec");
        fields.field("device", device).field("compute", compute).field("groups", groups);
        fields.field("communicators", communicators).field("hand_over", hand_over).field("waits", waits);
        fields.field("minimum", minimum).field("config", config).finish_non_exhaustive()
    }
}

/// How many communicators the channels have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Communicators {
    /// One each, with a stream of its own: no channel waits for another, as the program assumes. Their kernels must all be able
    /// to be on the device together.
    #[default]
    PerChannel,
    /// One for all: what is posted together is one launch, and launches go one after the other. Programs for which that is not
    /// enough must be refused before they are run: [`pp_schedule::verify::check_grouped`] tells.
    One,
}

/// Where a rank's messages are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum HandOver {
    /// In the device's memory: what is received is. What is sent may be on either side.
    #[default]
    Device,
    /// On the host: the endpoint copies to and from the device, and every wait is on the host.
    Host,
}

/// Where it is waited for messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Waits {
    /// The rank itself waits until a message is complete.
    OnHost,
    /// The compute stream does, and the rank goes on. What goes wrong shows at the latest when the endpoint is settled
    /// ([`Endpoint::settle`](crate::Endpoint::settle)), as [`execute`](crate::execute) does at the end of a step.
    #[default]
    OnStream,
}
