//! Some of the ranks of a run, in an order of their own. Whatever ranks do together, they do as a group.

use pp_schedule::{Channel, Rank};

/// A group as one of its ranks sees it.
///
/// A program's ranks are places in its pipeline group: many pipelines run side by side, each in a group of its own, and
/// [`Group::channel`] says which channel of the run a program's channel is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    id: u32,
    ranks: Vec<Rank>,
    place: usize,
}

impl Group {
    /// The group number `id` of `ranks` in this order, as `me` sees it; `None` when `me` is not in it, or a rank is twice.
    pub fn new(id: u32, ranks: Vec<Rank>, me: Rank) -> Option<Self> {
        let place = ranks.iter().position(|&rank| rank == me)?;
        let mut sorted = ranks.clone();
        sorted.sort_unstable();
        sorted.dedup();
        (sorted.len() == ranks.len()).then_some(Self { id, ranks, place })
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

    /// The channel between ranks of the run that a channel between places of this group stands for; `None` when it is
    /// between other places than there are.
    pub fn channel(&self, channel: Channel) -> Option<Channel> {
        let (source, destination) = (self.rank(channel.source.idx())?, self.rank(channel.destination.idx())?);
        Some(Channel { source, destination, ..channel })
    }
}
