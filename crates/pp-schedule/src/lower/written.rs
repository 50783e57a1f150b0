//! The `written` policy: every transfer where somebody else wrote it down.
//!
//! Other policies decide where transfers stand; this one is told, by rows that say what each rank computes, sends and
//! receives in turn. A transfer is posted alone, where it stands. A receive is waited for just before the computation
//! that needs it; sends are waited for when the row is through. That is how torch's schedule runtime treats such rows.

use std::collections::HashMap;
use std::fmt;

use crate::channels::ChannelMap;
use crate::deps::{Message, input_of, leaves_state, output_of, state_from};
use crate::ids::{ChannelId, Direction, Microbatch, Rank, Stage};
use crate::lower::slots::SlotPool;
use crate::order::{Extent, OrderError, check_row};
use crate::program::{
    Action, Carries, Channel, Compute, Program, RankProgram, Recompute, Role, Slot, SlotClass, Transfer,
};
use crate::work::Work;

/// What the transfers go over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Wires {
    /// One FIFO from each rank to each other: activations and gradients keep one order.
    #[default]
    PerPair,
    /// One FIFO from each rank to each other for activations, and one for gradients.
    PerPairAndDirection,
}

/// One thing that a row says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
    /// Computations that start together, once the inputs of all are there; they run one after the other.
    Compute(Work, Option<Work>),
    /// A send or a receive.
    Transfer {
        /// Which of the two.
        role: Role,
        /// Activation or gradient.
        direction: Direction,
        /// The stage on this rank that made the message, or that needs it.
        stage: Stage,
        /// Its microbatch.
        microbatch: Microbatch,
    },
}

/// A program, and the items that its actions come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The program.
    pub program: Program,
    /// By rank and step: the index, in the rank's row, of the item that the action comes from.
    pub items: Vec<Vec<u32>>,
}

/// An item that makes no sense where it stands.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WrittenError {
    /// The computations do not cover the step.
    #[error(transparent)]
    Order(#[from] OrderError),
    /// A transfer is out of place or missing.
    #[error("rank {rank}, step {item}: {fault}")]
    Item {
        /// The rank.
        rank: Rank,
        /// The index of the item in the rank's row.
        item: usize,
        /// What is wrong with it.
        fault: Fault,
    },
}

/// What is wrong with an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The stage is not on this rank; `None` when there is no such stage.
    NotHere(Option<Rank>),
    /// There is no such microbatch.
    NoSuchMicrobatch(u32),
    /// There is no such message: the stage is at an end of the pipeline, or there are no backwards.
    NoSuchMessage,
    /// The message does not leave its rank.
    StaysHere,
    /// A send before its message is made.
    SentTooEarly,
    /// A second send, or a second receive, of one message.
    Twice,
    /// A computation whose message was not asked for before.
    NotReceived(Message),
    /// A computation whose message nobody sends.
    NeverSent(Message),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotHere(Some(owner)) => write!(f, "its stage lives on rank {owner}; expected a stage of this rank"),
            Self::NotHere(None) => f.write_str("no rank computes its stage"),
            Self::NoSuchMicrobatch(microbatches) => write!(f, "only microbatches 0..{microbatches} are computed"),
            Self::NoSuchMessage => f.write_str("no computation makes and none needs such a message"),
            Self::StaysHere => f.write_str("the stage at the other end is on this rank too; leave the transfer out"),
            Self::SentTooEarly => f.write_str("the computation that makes the message stands further on"),
            Self::Twice => f.write_str("this message was transferred here before"),
            Self::NotReceived(message) => write!(f, "it needs the {message}, whose receive should stand before it"),
            Self::NeverSent(message) => write!(f, "it makes the {message}, which is never sent"),
        }
    }
}

/// The program of rows that say everything.
///
/// # Errors
/// [`WrittenError`]: the computations do not cover the step, or a transfer is missing, doubled or out of place on its
/// rank. Whether the ranks go together is for [`crate::verify()`] to say.
pub fn lower(extent: Extent, rows: &[Vec<Item>], wires: Wires) -> Result<Written, WrittenError> {
    let n_ranks = extent.placement.n_ranks() as usize;
    if rows.len() != n_ranks {
        return Err(OrderError::Ranks { given: rows.len(), expected: n_ranks }.into());
    }
    let wiring = Wiring::new(extent, wires);
    let (mut ranks, mut items) = (Vec::with_capacity(n_ranks), Vec::with_capacity(n_ranks));
    for (rank, row) in rows.iter().enumerate() {
        let rank = Rank(rank as u32);
        check_row(extent, rank, row.iter().flat_map(|item| item.works()))?;
        let (program, from) = Row::new(extent, &wiring, rank).run(row)?;
        ranks.push(program);
        items.push(from);
    }
    Ok(Written { program: Program { extent, channels: wiring.channels, ranks }, items })
}

impl Item {
    fn works(self) -> impl Iterator<Item = Work> {
        let (first, second) = match self {
            Self::Compute(first, second) => (Some(first), second),
            Self::Transfer { .. } => (None, None),
        };
        first.into_iter().chain(second)
    }
}

/// The channels, and which of them carries a message.
struct Wiring {
    channels: Vec<Channel>,
    by_direction: ChannelMap,
    /// By channel of `by_direction`.
    merged: Vec<ChannelId>,
}

impl Wiring {
    fn new(extent: Extent, wires: Wires) -> Self {
        let by_direction = ChannelMap::new(extent);
        let mut channels: Vec<Channel> = Vec::new();
        let mut by_pair: HashMap<(Rank, Rank), ChannelId> = HashMap::new();
        let merged = by_direction.channels().iter().map(|channel| {
            let id = ChannelId(channels.len() as u32);
            let (carries, known) = match wires {
                Wires::PerPair => (Carries::Both, *by_pair.entry((channel.source, channel.destination)).or_insert(id)),
                Wires::PerPairAndDirection => (channel.carries, id),
            };
            if known == id {
                channels.push(Channel { carries, queue: id.0, ..*channel });
            }
            known
        });
        let merged = merged.collect();
        Self { channels, by_direction, merged }
    }

    fn carrying(&self, message: Message) -> Option<ChannelId> {
        self.by_direction.carrying(message).map(|channel| self.merged[channel.idx()])
    }
}

/// Where a message is on its way through this rank.
#[derive(Clone, Copy)]
enum Way {
    /// Not made, or not asked for.
    Nowhere,
    /// Made, into this slot.
    Made(Slot),
    /// Transferred by this transfer.
    Posted(u32),
    /// Sent, or read.
    Gone,
}

struct Row<'a> {
    extent: Extent,
    wiring: &'a Wiring,
    item: usize,
    from: Vec<u32>,
    program: RankProgram,
    pools: [SlotPool; 4],
    saved: Vec<Option<Slot>>,
    /// By direction, and by the chunk and microbatch that makes or needs the message.
    outgoing: [Vec<Way>; 2],
    incoming: [Vec<Way>; 2],
    /// Sends and their items.
    sends: Vec<(u32, usize)>,
}

impl<'a> Row<'a> {
    fn new(extent: Extent, wiring: &'a Wiring, rank: Rank) -> Self {
        let ways = || vec![Way::Nowhere; extent.local_len()];
        Self {
            extent,
            wiring,
            item: 0,
            from: Vec::new(),
            program: RankProgram { rank, actions: Vec::new(), computes: Vec::new(), transfers: Vec::new() },
            pools: SlotClass::ALL.map(SlotPool::new),
            saved: vec![None; extent.local_len()],
            outgoing: [ways(), ways()],
            incoming: [ways(), ways()],
            sends: Vec::new(),
        }
    }

    fn run(mut self, row: &[Item]) -> Result<(RankProgram, Vec<u32>), WrittenError> {
        let rank = self.program.rank;
        for (index, item) in row.iter().enumerate() {
            self.item = index;
            let done = match *item {
                Item::Compute(first, second) => self.compute(first, second),
                Item::Transfer { role, direction, stage, microbatch } => {
                    self.transfer(role, direction, stage, microbatch)
                }
            };
            done.map_err(|fault| WrittenError::Item { rank, item: index, fault })?;
        }
        for (item, work) in row.iter().enumerate().flat_map(|(item, of)| of.works().map(move |work| (item, work))) {
            let left =
                output_of(work, self.extent.placement).filter(|message| self.wiring.carrying(*message).is_some());
            if let Some(message) = left
                && let Way::Made(..) = self.outgoing[message.direction as usize][self.extent.local_idx(work)]
            {
                return Err(WrittenError::Item { rank, item, fault: Fault::NeverSent(message) });
            }
        }
        for (transfer, item) in std::mem::take(&mut self.sends) {
            self.item = item;
            self.push(Action::Wait(transfer));
        }
        Ok((self.program, self.from))
    }

    fn push(&mut self, action: Action) {
        self.program.actions.push(action);
        self.from.push(self.item as u32);
    }

    /// The message that a transfer of this rank's stage is about, and the rank at the other end.
    fn message(
        &self,
        role: Role,
        direction: Direction,
        stage: Stage,
        microbatch: Microbatch,
    ) -> Result<(Message, Rank), Fault> {
        let Extent { placement, microbatches, forward_only } = self.extent;
        if stage.0 >= placement.n_stages() {
            return Err(Fault::NotHere(None));
        }
        if placement.rank_of(stage) != self.program.rank {
            return Err(Fault::NotHere(Some(placement.rank_of(stage))));
        }
        if microbatch.0 >= microbatches {
            return Err(Fault::NoSuchMicrobatch(microbatches));
        }
        let onward = (role == Role::Send) == (direction == Direction::Forward);
        let other = if onward { stage.0.checked_add(1) } else { stage.0.checked_sub(1) };
        let other = other.map(Stage).filter(|other| other.0 < placement.n_stages());
        let other = other.filter(|_| direction == Direction::Forward || !forward_only).ok_or(Fault::NoSuchMessage)?;
        if placement.rank_of(other) == self.program.rank {
            return Err(Fault::StaysHere);
        }
        let consumer = if role == Role::Send { other } else { stage };
        Ok((Message { direction, stage: consumer, microbatch }, placement.rank_of(other)))
    }

    fn transfer(
        &mut self,
        role: Role,
        direction: Direction,
        stage: Stage,
        microbatch: Microbatch,
    ) -> Result<(), Fault> {
        let (message, peer) = self.message(role, direction, stage, microbatch)?;
        let channel = self.wiring.carrying(message).ok_or(Fault::NoSuchMessage)?;
        let index = self.program.transfers.len() as u32;
        let local = self.extent.local_idx(Work::forward(stage, microbatch));
        let slot = match role {
            Role::Send => {
                let way = &mut self.outgoing[direction as usize][local];
                let slot = match std::mem::replace(way, Way::Gone) {
                    Way::Made(slot) => slot,
                    Way::Nowhere => return Err(Fault::SentTooEarly),
                    Way::Posted(_) | Way::Gone => return Err(Fault::Twice),
                };
                self.sends.push((index, self.item));
                slot
            }
            Role::Receive => {
                let way = &mut self.incoming[direction as usize][local];
                let Way::Nowhere = std::mem::replace(way, Way::Posted(index)) else { return Err(Fault::Twice) };
                self.pools[SlotClass::Receive as usize].take()
            }
        };
        let releases = role == Role::Send;
        self.program.transfers.push(Transfer { role, message, channel, peer, slot, releases, ends_post: true });
        self.push(Action::Post(index));
        Ok(())
    }

    fn compute(&mut self, first: Work, second: Option<Work>) -> Result<(), Fault> {
        // Both inputs are waited for before either runs.
        let first_input = self.input(first)?;
        let second_input = second.map(|work| self.input(work)).transpose()?;
        self.run_work(first, first_input, second.is_some());
        if let Some(work) = second {
            self.run_work(work, second_input.flatten(), false);
        }
        Ok(())
    }

    /// The slot of what a computation consumes, waited for. A tensor of this rank that is not made yet has none: the
    /// verifier reports that.
    fn input(&mut self, work: Work) -> Result<Option<Slot>, Fault> {
        let Some(message) = input_of(work, self.extent.placement) else { return Ok(None) };
        let local = self.extent.local_idx(work);
        match std::mem::replace(&mut self.incoming[message.direction as usize][local], Way::Gone) {
            Way::Posted(transfer) => {
                self.push(Action::Wait(transfer));
                Ok(Some(self.program.transfers[transfer as usize].slot))
            }
            Way::Made(slot) => Ok(Some(slot)),
            _ if self.wiring.carrying(message).is_some() => Err(Fault::NotReceived(message)),
            _ => Ok(None),
        }
    }

    fn run_work(&mut self, work: Work, input: Option<Slot>, overlaps_next: bool) {
        let local = self.extent.local_idx(work);
        let output = output_of(work, self.extent.placement).map(|message| {
            let leaves = self.wiring.carrying(message).is_some();
            let class = if leaves { SlotClass::Send } else { SlotClass::Local };
            let slot = self.pools[class as usize].take();
            let needed_by = self.extent.local_idx(Work::forward(message.stage, message.microbatch));
            let way = match leaves {
                true => &mut self.outgoing[message.direction as usize][local],
                false => &mut self.incoming[message.direction as usize][needed_by],
            };
            *way = Way::Made(slot);
            slot
        });
        let saved = self.state(work);
        self.push(Action::Compute(self.program.computes.len() as u32));
        let recompute = Recompute::ModelDefault;
        self.program.computes.push(Compute { work, recompute, overlaps_next, saved, input, output });
        if let Some(slot) = input {
            self.pools[slot.class() as usize].give_back(slot);
        }
    }

    fn state(&mut self, work: Work) -> Option<Slot> {
        let local = self.extent.local_idx(work);
        let leaves = leaves_state(work.kind, self.extent.forward_only);
        let slot = match state_from(work.kind) {
            Some(_) => self.saved[local].take(),
            None => leaves.then(|| self.pools[SlotClass::Saved as usize].take()),
        };
        match slot {
            Some(_) if leaves => self.saved[local] = slot,
            Some(slot) => self.pools[SlotClass::Saved as usize].give_back(slot),
            None => {}
        }
        slot
    }
}
