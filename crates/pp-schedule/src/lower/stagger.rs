//! The `stagger` policy: HyperParallel's 1F1B, whose transfers between two ranks stand in one queue.
//!
//! When everything between two neighbours goes in one order and nothing is buffered, a rank that sends must meet one that
//! receives. So the stages take turns by parity: an even stage sends an activation right after it made it, but for the
//! last of the warmup; an odd stage sends it just before its next forward. From the steady phase on, each turn is: ask for
//! the gradient, send the pending activation, run the backward, send its gradient, ask for the next activation.

use crate::config::{ScheduleConfig, ScheduleKind};
use crate::deps::{Message, output_of};
use crate::ids::{ChannelId, Direction, Microbatch, Rank, Stage};
use crate::lower::slots::SlotPool;
use crate::order::Extent;
use crate::program::{
    Action, Carries, Channel, Compute, Program, RankProgram, Recompute, Role, Slot, SlotClass, Transfer,
};
use crate::work::Work;

/// What the policy cannot do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StaggerError {
    /// It is 1F1B with backwards, and nothing else.
    #[error("the stagger policy is for training with 1f1b, but the schedule is {kind}{}; use the lanes policy",
        if *forward_only { ", forward only" } else { "" })]
    OnlyOneFOneB {
        /// The schedule.
        kind: ScheduleKind,
        /// Whether there are forwards only.
        forward_only: bool,
    },
    /// The turns by parity need a full warmup.
    #[error(
        "the stagger policy needs at least as many microbatches as ranks, but --microbatches is {microbatches} and --pp \
         {pp}; use smaller microbatches (at least {pp} of them), or --schedule gpipe"
    )]
    TooFewMicrobatches {
        /// Pipeline ranks.
        pp: u32,
        /// Microbatches.
        microbatches: u32,
    },
}

/// Whether there is such a program, found without building it.
///
/// # Errors
/// [`StaggerError`] for any schedule but 1F1B, and for fewer microbatches than ranks.
pub fn check(config: &ScheduleConfig) -> Result<(), StaggerError> {
    let (pp, microbatches, forward_only) = (config.pp(), config.microbatches(), config.forward_only());
    if config.kind() != ScheduleKind::OneFOneB || forward_only {
        return Err(StaggerError::OnlyOneFOneB { kind: config.kind(), forward_only });
    }
    if microbatches < pp {
        return Err(StaggerError::TooFewMicrobatches { pp, microbatches });
    }
    Ok(())
}

/// The program of a whole step.
///
/// # Errors
/// As [`check`].
pub fn lower(config: &ScheduleConfig) -> Result<Program, StaggerError> {
    check(config)?;
    let pp = config.pp();
    let ranks = (0..pp).map(|rank| Turns::new(config, Rank(rank)).run()).collect();
    Ok(Program { extent: Extent::from(config), channels: channels(pp), ranks })
}

/// The program of one rank, and the channels of the whole program.
///
/// # Errors
/// As [`check`].
pub fn lower_rank(config: &ScheduleConfig, rank: Rank) -> Result<(RankProgram, Vec<Channel>), StaggerError> {
    check(config)?;
    Ok((Turns::new(config, rank).run(), channels(config.pp())))
}

/// Activations to each next rank, then gradients to each rank before; both of a pair stand in the pair's queue.
fn channels(pp: u32) -> Vec<Channel> {
    let pairs = || (0..pp.saturating_sub(1)).map(|before| (Rank(before), Rank(before + 1)));
    let forward = pairs().map(|(before, after)| (before, after, Direction::Forward, before.0));
    let backward = pairs().map(|(before, after)| (after, before, Direction::Backward, before.0));
    let channels = forward.chain(backward);
    channels
        .map(|(source, destination, direction, queue)| Channel {
            source,
            destination,
            carries: Carries::Only(direction),
            queue,
        })
        .collect()
}

struct Turns<'a> {
    config: &'a ScheduleConfig,
    rank: Rank,
    program: RankProgram,
    pools: [SlotPool; 4],
    saved: Vec<Option<Slot>>,
    /// The activation made and not sent yet.
    unsent: Option<(Message, Slot)>,
    /// Receives posted and not waited for, oldest first, by direction.
    asked: [Vec<u32>; 2],
    /// Sends not waited for, with their microbatch.
    sends: Vec<(Microbatch, u32)>,
}

impl<'a> Turns<'a> {
    fn new(config: &'a ScheduleConfig, rank: Rank) -> Self {
        Self {
            config,
            rank,
            program: RankProgram { rank, actions: Vec::new(), computes: Vec::new(), transfers: Vec::new() },
            pools: SlotClass::ALL.map(SlotPool::new),
            saved: vec![None; config.microbatches() as usize],
            unsent: None,
            asked: [Vec::new(), Vec::new()],
            sends: Vec::new(),
        }
    }

    fn run(mut self) -> RankProgram {
        let m = self.config.microbatches();
        let warmup = (self.config.pp() - self.rank.0).min(m);
        for microbatch in 0..warmup {
            self.receive(Direction::Forward, microbatch);
            if !self.sends_at_once() {
                self.send_pending();
            }
            self.forward(microbatch);
            if self.sends_at_once() && microbatch + 1 != warmup {
                self.send_pending();
            }
        }
        for forward in warmup..m {
            self.backward_turn(forward - warmup);
            self.receive(Direction::Forward, forward);
            self.forward(forward);
        }
        for backward in m - warmup..m {
            self.backward_turn(backward);
        }
        self.release_before(m);
        self.program
    }

    /// Even stages send an activation as soon as it is made.
    fn sends_at_once(&self) -> bool {
        self.rank.0.is_multiple_of(2)
    }

    fn backward_turn(&mut self, microbatch: u32) {
        self.receive(Direction::Backward, microbatch);
        self.send_pending();
        self.backward(microbatch);
        // The sends of a microbatch are given up together, one turn after its backward.
        self.release_before(microbatch);
    }

    fn receive(&mut self, direction: Direction, microbatch: u32) {
        let last = Rank(self.config.pp() - 1);
        let (peer, channel) = match direction {
            Direction::Forward if self.rank.0 == 0 => return,
            Direction::Backward if self.rank == last => return,
            Direction::Forward => (Rank(self.rank.0 - 1), ChannelId(self.rank.0 - 1)),
            Direction::Backward => (Rank(self.rank.0 + 1), ChannelId(last.0 + self.rank.0)),
        };
        let message = Message { direction, stage: Stage(self.rank.0), microbatch: Microbatch(microbatch) };
        let slot = self.pools[SlotClass::Receive as usize].take();
        let receive = self.post(Role::Receive, message, channel, peer, slot);
        self.asked[direction as usize].push(receive);
    }

    /// The slot of the message asked for in a direction, which has arrived.
    fn arrived(&mut self, direction: Direction) -> Option<Slot> {
        let receive = self.asked[direction as usize].pop()?;
        self.program.actions.push(Action::Wait(receive));
        Some(self.program.transfers[receive as usize].slot)
    }

    fn forward(&mut self, microbatch: u32) {
        let work = Work::forward(Stage(self.rank.0), Microbatch(microbatch));
        let saved = self.pools[SlotClass::Saved as usize].take();
        self.saved[microbatch as usize] = Some(saved);
        let output = self.compute(work, Direction::Forward, Some(saved));
        self.unsent = output;
    }

    fn backward(&mut self, microbatch: u32) {
        let work = Work::backward(Stage(self.rank.0), Microbatch(microbatch));
        let saved = self.saved[microbatch as usize].take();
        let output = self.compute(work, Direction::Backward, saved);
        if let Some(slot) = saved {
            self.pools[SlotClass::Saved as usize].give_back(slot);
        }
        if let Some((message, slot)) = output {
            self.send(message, slot);
        }
    }

    fn compute(&mut self, work: Work, direction: Direction, saved: Option<Slot>) -> Option<(Message, Slot)> {
        let input = self.arrived(direction);
        let made = output_of(work, self.config.placement());
        let made = made.map(|message| (message, self.pools[SlotClass::Send as usize].take()));
        self.program.actions.push(Action::Compute(self.program.computes.len() as u32));
        let (recompute, output) = (Recompute::ModelDefault, made.map(|(_, slot)| slot));
        self.program.computes.push(Compute { work, recompute, overlaps_next: false, saved, input, output });
        if let Some(slot) = input {
            self.pools[SlotClass::Receive as usize].give_back(slot);
        }
        made
    }

    fn send_pending(&mut self) {
        if let Some((message, slot)) = self.unsent.take() {
            self.send(message, slot);
        }
    }

    fn send(&mut self, message: Message, slot: Slot) {
        let last = self.config.pp() - 1;
        let (peer, channel) = match message.direction {
            Direction::Forward => (Rank(self.rank.0 + 1), ChannelId(self.rank.0)),
            Direction::Backward => (Rank(self.rank.0 - 1), ChannelId(last + self.rank.0 - 1)),
        };
        let send = self.post(Role::Send, message, channel, peer, slot);
        self.sends.push((message.microbatch, send));
    }

    fn post(&mut self, role: Role, message: Message, channel: ChannelId, peer: Rank, slot: Slot) -> u32 {
        let index = self.program.transfers.len() as u32;
        let releases = role == Role::Send;
        self.program.transfers.push(Transfer { role, message, channel, peer, slot, releases, ends_post: true });
        self.program.actions.push(Action::Post(index));
        index
    }

    /// Waits for the sends of the microbatches before one.
    fn release_before(&mut self, microbatch: u32) {
        let (done, open) = self.sends.iter().partition(|(of, _)| of.0 < microbatch);
        self.sends = open;
        let done: Vec<(Microbatch, u32)> = done;
        for (_, send) in done {
            self.program.actions.push(Action::Wait(send));
            self.pools[SlotClass::Send as usize].give_back(self.program.transfers[send as usize].slot);
        }
    }
}
