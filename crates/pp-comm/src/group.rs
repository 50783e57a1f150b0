//! Some of the ranks of a run, in an order of their own. Whatever ranks do together, they do as a group.

use pp_schedule::{Carries, Channel, Direction, Rank};

/// The queues from this number on are kept for point-to-point methods on a ring; one per group.
const RING_QUEUES: u32 = 1 << 30;

/// The queues from this number on are kept for collectives; two per group.
const COLLECTIVE_QUEUES: u32 = 1 << 31;

/// A group as one of its ranks sees it.
///
/// A program's ranks are places in its pipeline group: many pipelines run side by side, each in a group of its own, and
/// [`Group::channel`] says which channel of the run a program's channel is. What else a group sends has channels of its
/// own, told from all others by queues that no program may use: [`Group::ring_channels`],
/// [`Group::collective_channels`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    id: u32,
    ranks: Vec<Rank>,
    place: usize,
}

/// Which of a group's two collective channels from one rank to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// What a rank gives, from the moment it starts a collective.
    Contributions,
    /// What a rank has made of the others' contributions. Ranks get there at different times, so that these must not
    /// stand in one queue with the contributions of later collectives.
    Results,
}

impl Group {
    /// The largest number a group may have.
    pub const MAX_ID: u32 = RING_QUEUES - 1;

    /// The group number `id` of `ranks` in this order, as `me` sees it; `None` when `me` is not in it, a rank is twice,
    /// or the number is above [`Group::MAX_ID`].
    pub fn new(id: u32, ranks: Vec<Rank>, me: Rank) -> Option<Self> {
        let place = ranks.iter().position(|&rank| rank == me)?;
        let mut sorted = ranks.clone();
        sorted.sort_unstable();
        sorted.dedup();
        (sorted.len() == ranks.len() && id <= Self::MAX_ID).then_some(Self { id, ranks, place })
    }

    /// The group of all ranks, in their own order. Number 0 of every mesh; `None` when `me` is not below `n_ranks`.
    pub fn all(n_ranks: u32, me: Rank) -> Option<Self> {
        Self::new(0, (0..n_ranks).map(Rank).collect(), me)
    }

    /// Its number, the same on each of its ranks and that of no other group of the run.
    pub const fn id(&self) -> u32 {
        self.id
    }

    /// Its ranks, in its order.
    pub fn ranks(&self) -> &[Rank] {
        &self.ranks
    }

    /// How many ranks it has; at least this one.
    pub const fn n_ranks(&self) -> usize {
        self.ranks.len()
    }

    /// The place of this rank in it.
    pub const fn place(&self) -> usize {
        self.place
    }

    /// This rank.
    pub fn me(&self) -> Rank {
        self.ranks[self.place]
    }

    /// The rank at a place; `None` past the end.
    pub fn rank(&self, place: usize) -> Option<Rank> {
        self.ranks.get(place).copied()
    }

    /// The places of the other ranks, from the one after this on around: so that not all ranks turn to one at once.
    pub(crate) fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let (place, n_ranks) = (self.place, self.ranks.len());
        (1..n_ranks).map(move |distance| (place + distance) % n_ranks)
    }

    /// The channel between ranks of the run that a program's channel between places of this group stands for; `None`
    /// when it is between other places than there are, or in a queue that no program may use.
    pub fn channel(&self, channel: Channel) -> Option<Channel> {
        let (source, destination) = (self.rank(channel.source.idx())?, self.rank(channel.destination.idx())?);
        (channel.queue < RING_QUEUES).then_some(Channel { source, destination, ..channel })
    }

    /// The channel by which what goes in a direction leaves a place for its neighbour on the ring.
    pub(crate) fn ring_channel(&self, place: usize, direction: Direction) -> Channel {
        let n_ranks = self.ranks.len();
        let after = match direction {
            Direction::Forward => (place + 1) % n_ranks,
            Direction::Backward => (place + n_ranks - 1) % n_ranks,
        };
        let (source, destination) = (self.ranks[place % n_ranks], self.ranks[after]);
        Channel { source, destination, carries: Carries::Only(direction), queue: RING_QUEUES | self.id }
    }

    /// The channels that point-to-point methods on the ring of this group need: from each rank one per direction. Over
    /// two ranks, whose next and previous rank are the same, these are four.
    pub fn ring_channels(&self) -> Vec<Channel> {
        if self.ranks.len() < 2 {
            return Vec::new();
        }
        let places = 0..self.ranks.len();
        let of = |place| [Direction::Forward, Direction::Backward].map(|direction| self.ring_channel(place, direction));
        places.flat_map(of).collect()
    }

    /// The channel of a collective's messages from one place to another.
    pub(crate) fn collective_channel(&self, from: usize, to: usize, lane: Lane) -> Channel {
        let queue = COLLECTIVE_QUEUES | (self.id << 1) | lane as u32;
        Channel { source: self.ranks[from], destination: self.ranks[to], carries: Carries::Both, queue }
    }

    /// The channels that this group's collectives need: two per ordered pair of its ranks, in queues of the group's
    /// own. The same list on each of its ranks.
    pub fn collective_channels(&self) -> Vec<Channel> {
        let n_ranks = self.ranks.len();
        let pairs =
            (0..n_ranks).flat_map(|from| (0..n_ranks).map(move |to| (from, to))).filter(|(from, to)| from != to);
        let lanes = [Lane::Contributions, Lane::Results];
        pairs.flat_map(|(from, to)| lanes.map(|lane| self.collective_channel(from, to, lane))).collect()
    }
}

/// Whether a channel is one of those that a group's collectives go over.
#[cfg(feature = "nccl")]
pub(crate) const fn is_for_collectives(channel: Channel) -> bool {
    channel.queue >= COLLECTIVE_QUEUES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(id: u32) -> Group {
        Group::new(id, [4, 2, 7].map(Rank).to_vec(), Rank(2)).expect("rank 2 is in it")
    }

    #[test]
    fn no_two_channels_of_a_run_are_the_same() {
        let mut channels: Vec<Channel> = [group(0), group(1), group(2), group(Group::MAX_ID)]
            .iter()
            .flat_map(|group| [group.ring_channels(), group.collective_channels()].concat())
            .collect();
        let program = Channel { source: Rank(0), destination: Rank(1), carries: Carries::Both, queue: RING_QUEUES - 1 };
        channels.extend(group(0).channel(program));
        let n_channels = channels.len();
        assert_eq!(n_channels, 4 * (6 + 12) + 1);
        channels.sort_unstable();
        channels.dedup();
        assert_eq!(channels.len(), n_channels);
    }

    #[test]
    fn a_program_gets_no_queue_that_is_kept() {
        let channel = Channel { source: Rank(2), destination: Rank(0), carries: Carries::Both, queue: 3 };
        let mapped = group(1).channel(channel).expect("both places exist");
        assert_eq!((mapped.source, mapped.destination, mapped.queue), (Rank(7), Rank(4), 3));
        for queue in [RING_QUEUES, COLLECTIVE_QUEUES, u32::MAX] {
            assert_eq!(group(1).channel(Channel { queue, ..channel }), None);
        }
        assert_eq!(group(1).channel(Channel { source: Rank(3), ..channel }), None);
    }

    #[test]
    fn a_group_needs_this_rank_each_rank_once_and_a_number_within_bounds() {
        assert_eq!(Group::new(1, vec![Rank(0), Rank(1)], Rank(2)), None);
        assert_eq!(Group::new(1, vec![Rank(0), Rank(0)], Rank(0)), None);
        assert_eq!(Group::new(Group::MAX_ID + 1, vec![Rank(0)], Rank(0)), None);
        assert_eq!(Group::all(3, Rank(3)), None);
        assert_eq!(group(1).others().collect::<Vec<_>>(), [2, 0]);
    }

    #[test]
    fn over_two_ranks_each_way_and_direction_has_a_channel() {
        let pair = Group::all(2, Rank(0)).expect("rank 0 is in it");
        let channels = pair.ring_channels();
        let ends = |channel: &Channel| (channel.source.0, channel.destination.0, channel.carries);
        let (forward, backward) = (Carries::Only(Direction::Forward), Carries::Only(Direction::Backward));
        let expected = [(0, 1, forward), (0, 1, backward), (1, 0, forward), (1, 0, backward)];
        assert_eq!(channels.iter().map(ends).collect::<Vec<_>>(), expected);
        assert!(Group::all(1, Rank(0)).expect("rank 0 is in it").ring_channels().is_empty());
    }
}
