//! The `lanes` policy: every channel is a lane of its own, receives are posted early, sends are waited for late.
//!
//! A rank posts the first few receives of every channel before it computes, and another each time it has consumed one;
//! it waits for a receive just before the computation that needs it. It posts a send right after the computation that
//! made the message, and waits for it when the buffer is needed again. The two bounds are [`Options`]; whether a
//! program within them can deadlock is not argued here but decided by [`crate::verify()`].

use std::borrow::Cow;
use std::collections::VecDeque;

use crate::channels::ChannelMap;
use crate::config::{ScheduleConfig, ScheduleKind};
use crate::deps::{Message, input_of, leaves_state, output_of, state_from};
use crate::ids::{ChannelId, Direction, Microbatch, Rank};
use crate::lower::slots::SlotPool;
use crate::order::{Extent, Order};
use crate::program::{Action, Carries, Compute, Program, RankProgram, Recompute, Role, Slot, SlotClass, Transfer};
use crate::schedules;
use crate::work::{Work, WorkKind};

/// How far ahead transfers may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Receives posted ahead of the computation that needs them, per channel.
    pub receives_ahead: u32,
    /// The same for the two channels that close the ring, from the last stage of one chunk to the first of the next.
    pub ring_receives_ahead: u32,
    /// Sends that may be in flight per channel before the next message is made.
    pub sends_in_flight: u32,
}

impl Options {
    /// Two of each, which lets a transfer run beside one computation. The ring's closing channels take in a whole
    /// group before its next chunk starts, so groups larger than `pp` need that many more receives there; to looped-bfs all
    /// microbatches are one group. With interleaved-zb a microbatch comes round the ring in `pp` computations, while a rank's
    /// turn in the steady phase is two or more of them: it is there up to `pp / 2` turns before the rank is through with its
    /// group, and waits that long.
    ///
    /// One receive fewer would do on the ring, and one of each elsewhere; [`crate::sweep`] proves that these do.
    pub fn for_config(config: &ScheduleConfig) -> Self {
        let (pp, microbatches) = (config.pp(), config.microbatches());
        let beyond_pp = |group: u32| group.saturating_sub(pp);
        let ring_receives_ahead = match config.kind() {
            ScheduleKind::Interleaved => 2 + beyond_pp(config.groups().largest(microbatches)),
            ScheduleKind::LoopedBfs if config.vp() > 1 => 2 + beyond_pp(microbatches),
            ScheduleKind::InterleavedZb => 1 + (pp / 2).max(1) + beyond_pp(config.groups().largest(microbatches)),
            _ => 2,
        };
        Self { receives_ahead: 2, ring_receives_ahead, sends_in_flight: 2 }
    }
}

/// The whole program of a configuration.
pub fn lower(config: &ScheduleConfig) -> Program {
    lower_order(&Order::generate(config), Options::for_config(config))
}

/// The program of one rank of a configuration, built without the other ranks' (its neighbours' orders aside), and the
/// channels of the whole program. Equal to that rank of [`lower`].
pub fn lower_rank(config: &ScheduleConfig, rank: Rank) -> (RankProgram, Vec<crate::program::Channel>) {
    let extent = Extent::from(config);
    let map = ChannelMap::new(extent);
    let pairs = schedules::rank_pairs(config, rank);
    // What comes from a search comes for all ranks at once.
    let searched = config.kind().is_searched().then(|| schedules::all_orders(config));
    let row = |rank: Rank| match &searched {
        Some(orders) => Cow::Borrowed(orders[rank.idx()].as_slice()),
        None => Cow::Owned(schedules::rank_order(config, rank)),
    };
    let program = lower_row(extent, Options::for_config(config), &map, (rank, &pairs), row);
    (program, map.into_channels())
}

/// The program of an order.
pub fn lower_order(order: &Order, options: Options) -> Program {
    let extent = order.extent();
    let map = ChannelMap::new(extent);
    let row = |rank: Rank| Cow::Borrowed(order.rows()[rank.idx()].as_slice());
    let ranks = (0..extent.placement.n_ranks()).map(Rank);
    let ranks = ranks.map(|rank| lower_row(extent, options, &map, (rank, order.pairs(rank)), row)).collect();
    Program { extent, channels: map.into_channels(), ranks }
}

fn lower_row<'a>(
    extent: Extent,
    options: Options,
    map: &ChannelMap,
    (rank, pairs): (Rank, &[u32]),
    row: impl Fn(Rank) -> Cow<'a, [Work]>,
) -> RankProgram {
    let mine = row(rank);
    let mut lowering = Lowering::new(extent, options, map, rank, mine.len());
    for &id in map.of_rank(rank) {
        let channel = map.channels()[id.idx()];
        if channel.destination == rank {
            let messages = row(channel.source);
            let messages = messages.iter().filter_map(|&work| output_of(work, extent.placement));
            lowering.expect(id, messages.filter(|&message| map.carrying(message) == Some(id)));
        } else {
            lowering.outgoing.push(Outgoing { channel: id, peer: channel.destination, in_flight: VecDeque::new() });
        }
    }
    lowering.find_routes();
    for lane in 0..lowering.incoming.len() {
        lowering.top_up(lane);
    }
    for &work in mine.iter() {
        lowering.compute(work);
    }
    lowering.drain();
    for &start in pairs {
        lowering.program.computes[start as usize].overlaps_next = true;
    }
    lowering.program
}

/// A transfer posted by itself, whose buffer is free once it is complete; the peer is to be filled in.
fn transfer(role: Role, message: Message, channel: ChannelId, slot: Slot) -> Transfer {
    Transfer { role, message, channel, peer: Rank(0), slot, releases: true, ends_post: true }
}

/// A channel into this rank: its messages are `range` of the transfers, in the order in which they are sent.
struct Incoming {
    channel: ChannelId,
    ahead: usize,
    first: usize,
    end: usize,
    /// Up to here they are posted.
    posted: usize,
    consumed: usize,
}

/// A channel out of this rank, and its sends that are not waited for yet.
struct Outgoing {
    channel: ChannelId,
    peer: Rank,
    in_flight: VecDeque<u32>,
}

/// The lanes that a chunk's messages of one direction come in and go out by; none where they stay on the rank, or where
/// there are none.
#[derive(Clone, Copy, Default)]
struct Route {
    incoming: Option<usize>,
    outgoing: Option<usize>,
}

struct Lowering<'a> {
    extent: Extent,
    options: Options,
    map: &'a ChannelMap,
    incoming: Vec<Incoming>,
    outgoing: Vec<Outgoing>,
    /// By direction and chunk.
    routes: [Vec<Route>; 2],
    /// The transfer that brings a message, by direction, chunk and microbatch; `u32::MAX` where none does.
    arrival: [Vec<u32>; 2],
    /// What is kept for a stage and microbatch.
    saved: Vec<Option<Slot>>,
    local: [Vec<Option<Slot>>; 2],
    pools: [SlotPool; 4],
    program: RankProgram,
}

impl<'a> Lowering<'a> {
    fn new(extent: Extent, options: Options, map: &'a ChannelMap, rank: Rank, n_computes: usize) -> Self {
        let len = extent.local_len();
        // Per computation at most one receive and one send, each posted and waited for.
        let actions = Vec::with_capacity(5 * n_computes);
        let (computes, transfers) = (Vec::with_capacity(n_computes), Vec::with_capacity(2 * n_computes));
        Self {
            extent,
            options,
            map,
            incoming: Vec::new(),
            outgoing: Vec::new(),
            routes: [Vec::new(), Vec::new()],
            arrival: [vec![u32::MAX; len], vec![u32::MAX; len]],
            saved: vec![None; len],
            local: [vec![None; len], vec![None; len]],
            pools: SlotClass::ALL.map(SlotPool::new),
            program: RankProgram { rank, actions, computes, transfers },
        }
    }

    /// Lays out the receives of a channel; they get their slots when they are posted.
    fn expect(&mut self, channel: ChannelId, messages: impl Iterator<Item = Message>) {
        let source = self.map.channels()[channel.idx()].source;
        let first = self.program.transfers.len();
        for message in messages {
            let index = self.idx_of(message);
            self.arrival[message.direction as usize][index] = self.program.transfers.len() as u32;
            let slot = Slot::new(SlotClass::Receive, 0);
            let receive = Transfer { peer: source, ..transfer(Role::Receive, message, channel, slot) };
            self.program.transfers.push(receive);
        }
        let ahead = self.ahead_of(channel);
        let end = self.program.transfers.len();
        self.incoming.push(Incoming { channel, ahead, first, end, posted: first, consumed: 0 });
    }

    fn ahead_of(&self, channel: ChannelId) -> usize {
        let channel = self.map.channels()[channel.idx()];
        let last = Rank(self.extent.placement.n_ranks() - 1);
        let closes_ring = match channel.carries {
            Carries::Only(Direction::Forward) => channel.source == last && channel.destination == Rank(0),
            Carries::Only(Direction::Backward) => channel.source == Rank(0) && channel.destination == last,
            Carries::Both => true,
        };
        let ahead = if closes_ring { self.options.ring_receives_ahead } else { self.options.receives_ahead };
        ahead.max(1) as usize
    }

    fn idx_of(&self, message: Message) -> usize {
        self.extent.local_idx(Work::forward(message.stage, message.microbatch))
    }

    /// Posts receives until as many are ahead as the options say.
    fn top_up(&mut self, lane: usize) {
        let lane_state = &self.incoming[lane];
        let until = (lane_state.first + lane_state.consumed + lane_state.ahead).min(lane_state.end);
        self.post_receives_until(lane, until);
    }

    fn post_receives_until(&mut self, lane: usize, until: usize) {
        for transfer in self.incoming[lane].posted..until {
            self.program.transfers[transfer].slot = self.pools[SlotClass::Receive as usize].take();
            self.program.actions.push(Action::Post(transfer as u32));
        }
        let posted = &mut self.incoming[lane].posted;
        *posted = until.max(*posted);
    }

    /// Looks up once what would be asked for every computation.
    fn find_routes(&mut self) {
        let placement = self.extent.placement;
        let rank = self.program.rank;
        for (direction, kind) in [(Direction::Forward, WorkKind::Forward), (Direction::Backward, WorkKind::Backward)] {
            let routes = placement.stages_of(rank).map(|stage| {
                let work = Work { kind, stage, microbatch: Microbatch(0) };
                let channel_of = |message: Option<Message>| message.and_then(|message| self.map.carrying(message));
                let (from, to) = (channel_of(input_of(work, placement)), channel_of(output_of(work, placement)));
                Route {
                    incoming: from.and_then(|id| self.incoming.iter().position(|lane| lane.channel == id)),
                    outgoing: to.and_then(|id| self.outgoing.iter().position(|lane| lane.channel == id)),
                }
            });
            self.routes[direction as usize] = routes.collect();
        }
    }

    fn compute(&mut self, work: Work) {
        let placement = self.extent.placement;
        let chunk = placement.chunk_of(work.stage).idx();
        let index = chunk * self.extent.microbatches as usize + work.microbatch.idx();
        let direction = if work.kind == WorkKind::Forward { Direction::Forward } else { Direction::Backward };
        let route = self.routes[direction as usize][chunk];
        let made = output_of(work, placement);
        let lane_out = made.and(route.outgoing);
        if let Some(lane) = lane_out {
            self.make_room(lane);
        }
        let (input, lane_in) = match input_of(work, placement) {
            Some(message) => self.input(message, index, route.incoming),
            None => (None, None),
        };
        let output = made.map(|message| match lane_out {
            Some(_) => self.pools[SlotClass::Send as usize].take(),
            None => self.keep_local(message),
        });
        let saved = self.state(work.kind, index);
        self.program.actions.push(Action::Compute(self.program.computes.len() as u32));
        let (recompute, overlaps_next) = (Recompute::ModelDefault, false);
        self.program.computes.push(Compute { work, recompute, overlaps_next, saved, input, output });
        if let Some(slot) = input {
            self.pools[slot.class() as usize].give_back(slot);
        }
        if let (Some(lane), Some(message), Some(slot)) = (lane_out, made, output) {
            self.send(lane, message, slot);
        }
        if let Some(lane) = lane_in {
            self.incoming[lane].consumed += 1;
            self.top_up(lane);
        }
    }

    /// The slot that holds what a computation consumes, waited for, and the lane it came by. `index` is that of the
    /// computation's stage and microbatch.
    fn input(&mut self, message: Message, index: usize, lane: Option<usize>) -> (Option<Slot>, Option<usize>) {
        let Some(lane) = lane else {
            // Absent when the order consumes before it makes: the verifier reports that.
            return (self.local[message.direction as usize][index].take(), None);
        };
        let transfer = self.arrival[message.direction as usize][index];
        if transfer == u32::MAX {
            return (None, None);
        }
        self.post_receives_until(lane, transfer as usize + 1);
        self.program.actions.push(Action::Wait(transfer));
        (Some(self.program.transfers[transfer as usize].slot), Some(lane))
    }

    /// A slot for a message to another stage of this rank.
    fn keep_local(&mut self, message: Message) -> Slot {
        let slot = self.pools[SlotClass::Local as usize].take();
        let index = self.idx_of(message);
        self.local[message.direction as usize][index] = Some(slot);
        slot
    }

    /// The slot of a computation's state: the one kept for it, or a new one if it is the first to leave any.
    fn state(&mut self, kind: WorkKind, index: usize) -> Option<Slot> {
        let pool = &mut self.pools[SlotClass::Saved as usize];
        let leaves = leaves_state(kind, self.extent.forward_only);
        let slot = match state_from(kind) {
            Some(_) => self.saved[index].take(),
            None => leaves.then(|| pool.take()),
        };
        if leaves {
            self.saved[index] = slot;
        } else if let Some(slot) = slot {
            pool.give_back(slot);
        }
        slot
    }

    /// Waits for the oldest send of a full lane, so that its buffer can be used again.
    fn make_room(&mut self, lane: usize) {
        if self.outgoing[lane].in_flight.len() >= self.options.sends_in_flight.max(1) as usize {
            self.finish_oldest_send(lane);
        }
    }

    fn finish_oldest_send(&mut self, lane: usize) {
        if let Some(transfer) = self.outgoing[lane].in_flight.pop_front() {
            self.program.actions.push(Action::Wait(transfer));
            let slot = self.program.transfers[transfer as usize].slot;
            self.pools[SlotClass::Send as usize].give_back(slot);
        }
    }

    fn send(&mut self, lane: usize, message: Message, slot: Slot) {
        let Outgoing { channel, peer, .. } = self.outgoing[lane];
        let index = self.program.transfers.len() as u32;
        self.program.transfers.push(Transfer { peer, ..transfer(Role::Send, message, channel, slot) });
        self.program.actions.push(Action::Post(index));
        self.outgoing[lane].in_flight.push_back(index);
    }

    fn drain(&mut self) {
        for lane in 0..self.outgoing.len() {
            while !self.outgoing[lane].in_flight.is_empty() {
                self.finish_oldest_send(lane);
            }
        }
    }
}
