//! The reference: plays all ranks at once, by brute force, and moves values about.
//!
//! Whatever a computation reads is the name of the computation that made it. Queues, grouped posts and buffers are played
//! as they are defined: a post offers its transfers once it is the first of its queue, and leaves the queue once all its
//! transfers there are complete; a channel hands over its messages in order, and holds a few that nobody asked for yet.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use pp_schedule::deps::{input_of, leaves_state, output_of, state_from};
use pp_schedule::verify::{Queues, Semantics};
use pp_schedule::{
    Carries, Compute, Direction, Mark, Microbatch, Program, RankProgram, Role, Slot, SlotClass, Stage, Step, Transfer,
    Work, WorkKind,
};

use crate::sample::Random;

/// How a run goes wrong.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Wrong {
    /// Something is done that must not be.
    Fault(String),
    /// Nothing can go on, and so many ranks have not reached their end; none when only transfers are left.
    Stuck(usize),
}

fn fault<T>(text: impl Into<String>) -> Result<T, Wrong> {
    Err(Wrong::Fault(text.into()))
}

/// What a slot holds.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Held {
    /// The tensor, or the state, that a computation made.
    Made(Work),
    /// Lent to a transfer that is not waited for.
    Lent,
}

#[derive(Default)]
struct RankState {
    at: usize,
    slots: HashMap<Slot, Held>,
    posted: HashSet<u32>,
    /// The value that each send carries.
    carried: HashMap<u32, Work>,
    /// Complete transfers; a receive with what arrived.
    complete: HashMap<u32, Option<Work>>,
    waited: HashSet<u32>,
    queues: BTreeMap<(u32, u32), VecDeque<Queued>>,
}

/// A post in a queue: its transfers there, and whether they are offered.
struct Queued {
    transfers: Vec<u32>,
    offered: bool,
}

/// A channel between its two ends.
#[derive(Clone, Default)]
struct Wire {
    sends: VecDeque<(usize, u32)>,
    receives: VecDeque<(usize, u32)>,
    /// Messages that left their sender and were not asked for: rank, transfer.
    buffered: VecDeque<(usize, u32)>,
}

/// Runs a program as far as it goes. The order in which ranks and channels get their turns is drawn at random; the
/// outcome must not depend on it.
pub(crate) fn run(program: &Program, semantics: Semantics, random: &mut Random) -> Result<(), Wrong> {
    check_shape(program)?;
    let mut play = Play {
        program,
        semantics,
        ranks: program.ranks.iter().map(|_| RankState::default()).collect(),
        wires: vec![Wire::default(); program.channels.len()],
        done: HashSet::new(),
    };
    let mut turns: Vec<usize> = (0..program.ranks.len()).collect();
    loop {
        random.shuffle(&mut turns);
        let mut moved = false;
        for &rank in &turns {
            // A few actions, or all that can be done: timing is arbitrary.
            let patience = 1 + random.below(4);
            for _ in 0..patience {
                let went_on = play.act(rank)?;
                moved |= went_on;
                if !went_on {
                    break;
                }
            }
            moved |= play.serve_queues(rank);
        }
        for channel in 0..program.channels.len() {
            moved |= play.carry(channel)?;
        }
        if !moved {
            return play.at_end();
        }
    }
}

/// Rules that hold whatever happens: every action and transfer refers to things that are there and fit.
fn check_shape(program: &Program) -> Result<(), Wrong> {
    for (index, ranked) in program.ranks.iter().enumerate() {
        for step in 0..ranked.actions.len() {
            match ranked.step(step) {
                None => return fault("an action refers to nothing"),
                Some(Step::Post(_, transfers)) => {
                    transfers.iter().try_for_each(|transfer| check_transfer(program, index, transfer))?;
                }
                Some(Step::Mark(Mark::SyncGradients(chunk) | Mark::SyncParameters(chunk)))
                    if chunk.0 >= program.extent.placement.n_chunks() =>
                {
                    return fault("a mark names no chunk");
                }
                Some(_) => {}
            }
        }
    }
    Ok(())
}

fn check_transfer(program: &Program, rank: usize, transfer: &Transfer) -> Result<(), Wrong> {
    let Some(channel) = program.channels.get(transfer.channel.idx()) else { return fault("no such channel") };
    let (here, there, class) = match transfer.role {
        Role::Send => (channel.source, channel.destination, SlotClass::Send),
        Role::Receive => (channel.destination, channel.source, SlotClass::Receive),
    };
    let carries = match channel.carries {
        Carries::Both => true,
        Carries::Only(direction) => direction == transfer.message.direction,
    };
    if here.idx() != rank || there != transfer.peer || !carries || transfer.slot.class() != class {
        return fault(format!("{transfer} does not fit its channel or slot"));
    }
    Ok(())
}

struct Play<'a> {
    program: &'a Program,
    semantics: Semantics,
    ranks: Vec<RankState>,
    wires: Vec<Wire>,
    done: HashSet<Work>,
}

impl Play<'_> {
    fn ranked(&self, rank: usize) -> &RankProgram {
        &self.program.ranks[rank]
    }

    /// The queue that a transfer stands in: its number, and one to tell roles apart.
    fn queue_of(&self, transfer: &Transfer) -> (u32, u32) {
        let channel = &self.program.channels[transfer.channel.idx()];
        let direction = match channel.carries {
            Carries::Only(Direction::Backward) => 1,
            Carries::Only(Direction::Forward) | Carries::Both => 0,
        };
        let role = match transfer.role {
            Role::Send => 0,
            Role::Receive => 1,
        };
        match self.semantics.queues {
            Queues::AsStated => (channel.queue, 0),
            Queues::OnePerRank => (0, 0),
            Queues::OnePerDirection => (direction, 0),
            Queues::FourLanes => (direction, role),
            Queues::OnePerChannel => (transfer.channel.0, 0),
        }
    }

    /// Does the next action of a rank, if it can be done.
    fn act(&mut self, rank: usize) -> Result<bool, Wrong> {
        let program = self.program;
        let Some(step) = program.ranks[rank].step(self.ranks[rank].at) else { return Ok(false) };
        match step {
            Step::Compute(compute) => {
                if !self.done.insert(compute.work) {
                    return fault(format!("{} twice", compute.work));
                }
                run_compute(program, rank, &mut self.ranks[rank], compute)?;
            }
            Step::Post(first, transfers) => self.post(rank, first, transfers)?,
            Step::Wait(index, transfer) => {
                let state = &mut self.ranks[rank];
                if !state.posted.contains(&index) || state.waited.contains(&index) {
                    return fault("wait out of turn");
                }
                let Some(&arrived) = state.complete.get(&index) else { return Ok(false) };
                state.waited.insert(index);
                let left = match transfer.role {
                    Role::Receive => arrived,
                    Role::Send if transfer.releases => None,
                    Role::Send => state.carried.get(&index).copied(),
                };
                match left {
                    Some(work) => state.slots.insert(transfer.slot, Held::Made(work)),
                    None => state.slots.remove(&transfer.slot),
                };
            }
            Step::Free(slot) => {
                let held = self.ranks[rank].slots.remove(&slot);
                if slot.class() != SlotClass::Send || !matches!(held, Some(Held::Made(_))) {
                    return fault(format!("free of {slot}, which holds {held:?}"));
                }
            }
            Step::Mark(_) => {}
        }
        self.ranks[rank].at += 1;
        Ok(true)
    }

    fn post(&mut self, rank: usize, first: u32, transfers: &[Transfer]) -> Result<(), Wrong> {
        let mut by_queue: BTreeMap<(u32, u32), Vec<u32>> = BTreeMap::new();
        for (index, transfer) in (first..).zip(transfers) {
            by_queue.entry(self.queue_of(transfer)).or_default().push(index);
            let state = &mut self.ranks[rank];
            if !state.posted.insert(index) {
                return fault("posted twice");
            }
            match (transfer.role, state.slots.insert(transfer.slot, Held::Lent)) {
                (Role::Send, Some(Held::Made(work))) => {
                    state.carried.insert(index, work);
                }
                (Role::Receive, None) => {}
                (_, before) => return fault(format!("post of {transfer} over {before:?}")),
            }
        }
        for (queue, transfers) in by_queue {
            self.ranks[rank].queues.entry(queue).or_default().push_back(Queued { transfers, offered: false });
        }
        Ok(())
    }

    /// Offers the first post of each queue, and takes away those that are complete.
    fn serve_queues(&mut self, rank: usize) -> bool {
        let program = self.program;
        let RankState { queues, complete, .. } = &mut self.ranks[rank];
        let mut moved = false;
        for posts in queues.values_mut() {
            while let Some(Queued { transfers, offered }) = posts.front_mut() {
                if !*offered {
                    *offered = true;
                    moved = true;
                    for &index in transfers.iter() {
                        let transfer = &program.ranks[rank].transfers[index as usize];
                        let wire = &mut self.wires[transfer.channel.idx()];
                        match transfer.role {
                            Role::Send => wire.sends.push_back((rank, index)),
                            Role::Receive => wire.receives.push_back((rank, index)),
                        }
                    }
                }
                if !transfers.iter().all(|index| complete.contains_key(index)) {
                    break;
                }
                posts.pop_front();
                moved = true;
            }
        }
        moved
    }

    /// Lets a channel hand over what it can.
    fn carry(&mut self, channel: usize) -> Result<bool, Wrong> {
        let mut moved = false;
        loop {
            let wire = &mut self.wires[channel];
            let to = wire.receives.front().copied();
            let from = wire.buffered.front().or(wire.sends.front()).copied();
            if let (Some(from), Some(to)) = (from, to) {
                if wire.buffered.pop_front().is_none() {
                    wire.sends.pop_front();
                }
                wire.receives.pop_front();
                self.hand_over(from, to)?;
            } else if let Some(sent) = wire.sends.front().copied()
                && wire.buffered.len() < self.semantics.capacity as usize
            {
                wire.buffered.push_back(sent);
                wire.sends.pop_front();
                self.ranks[sent.0].complete.insert(sent.1, None);
            } else {
                return Ok(moved);
            }
            moved = true;
        }
    }

    fn hand_over(&mut self, (from, sent): (usize, u32), (to, received): (usize, u32)) -> Result<(), Wrong> {
        let labels =
            (self.ranked(from).transfers[sent as usize].message, self.ranked(to).transfers[received as usize].message);
        let work = self.ranks[from].carried[&sent];
        if labels.0 != labels.1 || output_of(work, self.program.extent.placement) != Some(labels.0) {
            return fault(format!("{work} arrives as {}", labels.1));
        }
        self.ranks[from].complete.insert(sent, None);
        self.ranks[to].complete.insert(received, Some(work));
        Ok(())
    }

    fn at_end(mut self) -> Result<(), Wrong> {
        let stuck =
            self.ranks.iter().zip(&self.program.ranks).filter(|(state, ranked)| state.at < ranked.actions.len());
        let n_stuck = stuck.count();
        let pending = self.ranks.iter().any(|state| state.queues.values().any(|posts| !posts.is_empty()));
        if n_stuck > 0 || pending {
            return Err(Wrong::Stuck(n_stuck));
        }
        for (state, ranked) in self.ranks.iter_mut().zip(&self.program.ranks) {
            // Sends may be under way when the program ends, as long as they arrive and nobody was to free them.
            for (index, transfer) in (0..).zip(&ranked.transfers) {
                let leaves = transfer.role == Role::Send && transfer.releases && state.complete.contains_key(&index);
                let over =
                    state.waited.contains(&index) || (leaves && state.slots.remove(&transfer.slot) == Some(Held::Lent));
                if !over {
                    return fault(format!("{transfer} is left behind"));
                }
            }
            if !state.slots.is_empty() {
                return fault("a tensor is left behind");
            }
        }
        if self.wires.iter().any(|wire| !wire.buffered.is_empty()) {
            return fault("a message is never received");
        }
        covered(self.program, &self.done)
    }
}

fn run_compute(program: &Program, rank: usize, state: &mut RankState, compute: &Compute) -> Result<(), Wrong> {
    let placement = program.extent.placement;
    let work = compute.work;
    let known = work.stage.0 < placement.n_stages() && work.microbatch.0 < program.extent.microbatches;
    if !known || placement.rank_of(work.stage).idx() != rank {
        return fault(format!("{work} does not belong on rank {rank}"));
    }
    let class = |slot: Option<Slot>, classes: &[SlotClass]| slot.is_none_or(|slot| classes.contains(&slot.class()));
    let fits = class(compute.input, &[SlotClass::Receive, SlotClass::Local])
        && class(compute.output, &[SlotClass::Send, SlotClass::Local])
        && class(compute.saved, &[SlotClass::Saved]);
    let leaves = leaves_state(work.kind, program.extent.forward_only);
    let keeps = leaves || state_from(work.kind).is_some();
    if !fits || compute.output.is_some() != output_of(work, placement).is_some() || compute.saved.is_some() != keeps {
        return fault(format!("{work} names slots that it has no use for, or lacks some"));
    }
    let read = compute.input.map(|slot| state.slots.remove(&slot));
    match (input_of(work, placement), read) {
        (None, None) => {}
        (Some(needed), Some(Some(Held::Made(made)))) if output_of(made, placement) == Some(needed) => {}
        (needed, read) => return fault(format!("{work} needs {needed:?} and reads {read:?}")),
    }
    if let Some(slot) = compute.output
        && state.slots.insert(slot, Held::Made(work)).is_some()
    {
        return fault(format!("{work} overwrites {slot}"));
    }
    let Some(slot) = compute.saved else { return Ok(()) };
    let kept = state.slots.remove(&slot);
    if kept != state_from(work.kind).map(|kind| Held::Made(Work { kind, ..work })) {
        return fault(format!("{work} finds {kept:?} in {slot}"));
    }
    if leaves {
        state.slots.insert(slot, Held::Made(work));
    }
    Ok(())
}

/// Every forward, and unless there are forwards only every backward, whole or in its two parts.
fn covered(program: &Program, done: &HashSet<Work>) -> Result<(), Wrong> {
    let extent = program.extent;
    for stage in (0..extent.placement.n_stages()).map(Stage) {
        for microbatch in (0..extent.microbatches).map(Microbatch) {
            let [f, b, i, w] = WorkKind::ALL.map(|kind| done.contains(&Work { kind, stage, microbatch }));
            let backward = match extent.forward_only {
                true => !b && !i && !w,
                false => (b && !i && !w) || (!b && i && w),
            };
            if !f || !backward {
                return fault(format!("stage {stage}, microbatch {microbatch} is not covered"));
            }
        }
    }
    Ok(())
}
