//! The channels a placement needs: one per (source, destination, direction) with a message to carry.

use crate::deps::Message;
use crate::ids::{ChannelId, Direction, Stage};
use crate::order::Extent;
use crate::program::{Carries, Channel};

/// The channels of an extent, each a queue of its own, and which of them carries a message. Every rank computes the same
/// map by itself.
#[derive(Clone, Debug)]
pub(crate) struct ChannelMap {
    channels: Vec<Channel>,
    /// By consuming stage; none where producer and consumer share a rank.
    forward: Vec<Option<ChannelId>>,
    backward: Vec<Option<ChannelId>>,
}

impl ChannelMap {
    pub(crate) fn new(extent: Extent) -> Self {
        let n_stages = extent.placement.n_stages();
        let forward = (0..n_stages).map(|stage| channel_to(extent, Direction::Forward, Stage(stage)));
        let forward: Vec<Option<Channel>> = forward.collect();
        let backward = (0..n_stages).map(|stage| channel_to(extent, Direction::Backward, Stage(stage)));
        let backward: Vec<Option<Channel>> = backward.collect();
        let mut channels: Vec<Channel> = forward.iter().chain(&backward).copied().flatten().collect();
        let key = |channel: &Channel| (channel.carries, channel.source, channel.destination);
        channels.sort_unstable_by_key(key);
        channels.dedup();
        let id = |channel: Option<Channel>| {
            let found = channels.binary_search_by_key(&key(&channel?), key);
            found.ok().map(|index| ChannelId(index as u32))
        };
        let (forward, backward) = (forward.into_iter().map(id).collect(), backward.into_iter().map(id).collect());
        for (index, channel) in channels.iter_mut().enumerate() {
            channel.queue = index as u32;
        }
        Self { forward, backward, channels }
    }

    /// The channel a message goes over; `None` when it stays on its rank.
    #[inline]
    pub(crate) fn carrying(&self, message: Message) -> Option<ChannelId> {
        let by_stage = match message.direction {
            Direction::Forward => &self.forward,
            Direction::Backward => &self.backward,
        };
        by_stage[message.stage.idx()]
    }

    pub(crate) fn channels(&self) -> &[Channel] {
        &self.channels
    }

    pub(crate) fn into_channels(self) -> Vec<Channel> {
        self.channels
    }
}

/// The channel into `stage`; `None` where no message comes in or its producer is on the same rank.
fn channel_to(extent: Extent, direction: Direction, stage: Stage) -> Option<Channel> {
    let placement = extent.placement;
    let made_by = match direction {
        Direction::Forward => Stage(stage.0.checked_sub(1)?),
        Direction::Backward if extent.forward_only || placement.is_last(stage) => return None,
        Direction::Backward => Stage(stage.0 + 1),
    };
    let (source, destination) = (placement.rank_of(made_by), placement.rank_of(stage));
    let carries = Carries::Only(direction);
    // The queue is known once all channels are.
    (source != destination).then_some(Channel { source, destination, carries, queue: 0 })
}
