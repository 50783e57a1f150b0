//! The channels a placement needs: one per (source, destination, direction) with a message to carry.

use crate::deps::Message;
use crate::ids::{ChannelId, Direction, Rank, Stage};
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
    /// By rank: the channels with an end there, ascending.
    of_rank: Vec<Vec<ChannelId>>,
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
        let mut of_rank = vec![Vec::new(); extent.placement.n_ranks() as usize];
        for (index, channel) in (0..).zip(&mut channels) {
            channel.queue = index;
            for end in [channel.source, channel.destination] {
                of_rank[end.idx()].push(ChannelId(index));
            }
        }
        Self { forward, backward, channels, of_rank }
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

    /// The channels with an end on a rank, ascending, so that nobody has to go through those of all ranks.
    pub(crate) fn of_rank(&self, rank: Rank) -> &[ChannelId] {
        &self.of_rank[rank.idx()]
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::{Placement, Shape};

    #[test]
    fn each_rank_finds_the_channels_that_end_there() {
        for (shape, pp, vp) in [(Shape::Loop, 1, 3), (Shape::Loop, 2, 2), (Shape::Loop, 5, 2), (Shape::V, 4, 3)] {
            let placement = Placement::shaped(shape, pp, vp);
            for forward_only in [false, true] {
                let map = ChannelMap::new(Extent { placement, microbatches: 1, forward_only });
                for rank in (0..pp).map(Rank) {
                    let ends = |channel: &Channel| [channel.source, channel.destination].contains(&rank);
                    let all = (0..).map(ChannelId).zip(map.channels());
                    let searched: Vec<_> = all.filter(|(_, channel)| ends(channel)).map(|(id, _)| id).collect();
                    assert_eq!(map.of_rank(rank), searched, "{placement:?}, rank {rank}");
                }
            }
        }
    }
}
