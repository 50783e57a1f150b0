//! Writes one rank's program, call by call, and notes what Megatron does beyond it.

use super::channels::Ring;
use super::options::{Issue, Options, SendRelease};
use super::view::{Method, Note, Phase, View};
use crate::config::{ScheduleConfig, ScheduleKind};
use crate::deps::{Message, input_of, output_of};
use crate::figures;
use crate::ids::{Chunk, Direction, Microbatch, Rank};
use crate::lower::slots::SlotPool;
use crate::order::Extent;
use crate::program::{Action, Compute, Mark, RankProgram, Recompute, Role, Slot, SlotClass, Transfer};
use crate::work::Work;

/// A chunk of this rank and a microbatch.
pub(super) type Piece = (Chunk, Microbatch);

/// The tensors of one call of a method.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Exchange {
    /// The output to send to the next rank.
    pub(super) send_next: Option<Piece>,
    /// The input to receive from the previous rank.
    pub(super) receive_previous: Option<Piece>,
    /// The input's gradient to send to the previous rank.
    pub(super) send_previous: Option<Piece>,
    /// The output's gradient to receive from the next rank.
    pub(super) receive_next: Option<Piece>,
}

/// The transfers of a call that has returned before they are complete.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Handles {
    pub(super) send_next: Option<u32>,
    pub(super) receive_previous: Option<u32>,
    pub(super) send_previous: Option<u32>,
    pub(super) receive_next: Option<u32>,
}

/// Where a tensor of this rank is, by direction of its message, chunk and microbatch.
type Places = [Vec<Option<Slot>>; 2];

pub(super) struct Emitter<'a> {
    pub(super) config: &'a ScheduleConfig,
    pub(super) options: Options,
    pub(super) rank: Rank,
    extent: Extent,
    ring: Ring,
    program: RankProgram,
    notes: Vec<(u32, Note)>,
    pools: [SlotPool; 4],
    saved: Vec<Option<Slot>>,
    made: Places,
    arrived: Places,
    /// Whether an output's slot waits to be freed, by chunk and microbatch.
    to_free: Vec<Option<Slot>>,
    sync_is_off: bool,
    n_forwards: u32,
    /// With partial checkpoints: how many of each window's microbatches are not fully recomputed, and the window.
    window: Option<(u32, u32)>,
}

impl<'a> Emitter<'a> {
    pub(super) fn new(config: &'a ScheduleConfig, options: Options, rank: Rank) -> Self {
        let extent = Extent::from(config);
        let len = extent.local_len();
        let warmup = match config.kind() {
            // Megatron counts 1F1B's warmup alike whether there are backwards or not.
            ScheduleKind::OneFOneB => (config.pp() - rank.0 - 1).min(config.microbatches()),
            _ => figures::counts(config, rank).warmup,
        };
        let partial = options.partial_checkpoints.filter(|_| config.kind() != ScheduleKind::NoPipelining);
        let places = || [vec![None; len], vec![None; len]];
        Self {
            config,
            options,
            rank,
            extent,
            ring: Ring::new(config, options.issue),
            program: RankProgram { rank, actions: Vec::new(), computes: Vec::new(), transfers: Vec::new() },
            notes: Vec::new(),
            pools: SlotClass::ALL.map(SlotPool::new),
            saved: vec![None; len],
            made: places(),
            arrived: places(),
            to_free: vec![None; len],
            sync_is_off: false,
            n_forwards: 0,
            window: partial.map(|partial| (partial, warmup + 1)),
        }
    }

    pub(super) fn finish(self) -> (RankProgram, View) {
        (self.program, View { extent: self.extent, notes: self.notes })
    }

    /// Whether this is the first rank.
    pub(super) fn is_first(&self) -> bool {
        self.rank.0 == 0
    }

    /// Whether this is the last rank.
    pub(super) fn is_last(&self) -> bool {
        self.rank.0 + 1 == self.config.pp()
    }

    /// Whether sync functions are called: never when there are forwards only.
    pub(super) fn syncs(&self) -> bool {
        self.options.sync_functions && !self.config.forward_only()
    }

    pub(super) fn phase(&mut self, phase: Phase) {
        self.note(Note::Phase(phase));
    }

    pub(super) fn mark(&mut self, mark: Mark) {
        self.program.actions.push(Action::Mark(mark));
    }

    /// Turns automatic gradient synchronisation off, if it is on.
    pub(super) fn sync_off(&mut self) {
        if !std::mem::replace(&mut self.sync_is_off, true) {
            self.mark(Mark::SyncOff);
        }
    }

    /// Turns it on, if it is off; says whether it was.
    pub(super) fn sync_on(&mut self) -> bool {
        let was_off = std::mem::take(&mut self.sync_is_off);
        if was_off {
            self.mark(Mark::SyncOn);
        }
        was_off
    }

    pub(super) fn forward(&mut self, (chunk, microbatch): Piece) {
        let work = Work::forward(self.extent.placement.stage_of(self.rank, chunk), microbatch);
        let recompute = match self.window {
            None => Recompute::ModelDefault,
            Some((partial, window)) if self.n_forwards % window >= partial => Recompute::Full,
            Some(_) => Recompute::Partial,
        };
        self.n_forwards += 1;
        let saved = (!self.config.forward_only()).then(|| self.pools[SlotClass::Saved as usize].take());
        self.saved[self.extent.local_idx(work)] = saved;
        self.compute(work, recompute, saved);
    }

    pub(super) fn backward(&mut self, (chunk, microbatch): Piece) {
        let work = Work::backward(self.extent.placement.stage_of(self.rank, chunk), microbatch);
        let saved = self.saved[self.extent.local_idx(work)].take();
        self.compute(work, Recompute::ModelDefault, saved);
        if let Some(slot) = saved {
            self.pools[SlotClass::Saved as usize].give_back(slot);
        }
    }

    fn compute(&mut self, work: Work, recompute: Recompute, saved: Option<Slot>) {
        let (placement, index) = (self.extent.placement, self.extent.local_idx(work));
        let input =
            input_of(work, placement).and_then(|message| self.arrived[message.direction as usize][index].take());
        let output = output_of(work, placement).map(|message| {
            // On one rank, a chunk hands its output straight to the next.
            let stays = placement.rank_of(message.stage) == self.rank;
            let class = if stays { SlotClass::Local } else { SlotClass::Send };
            let slot = self.pools[class as usize].take();
            let place = match stays {
                true => {
                    let taker = self.extent.local_idx(Work::forward(message.stage, message.microbatch));
                    &mut self.arrived[message.direction as usize][taker]
                }
                false => &mut self.made[message.direction as usize][index],
            };
            *place = Some(slot);
            slot
        });
        self.program.actions.push(Action::Compute(self.program.computes.len() as u32));
        self.program.computes.push(Compute { work, recompute, overlaps_next: false, saved, input, output });
        if let Some(slot) = input {
            self.pools[slot.class() as usize].give_back(slot);
        }
    }

    /// A call that returns when its transfers are complete.
    pub(super) fn call(&mut self, method: Method, exchange: Exchange) {
        let at = self.program.actions.len();
        let handles = self.post(exchange);
        // Complete in the order in which they were issued.
        let mut transfers: Vec<u32> =
            [handles.send_next, handles.receive_previous, handles.send_previous, handles.receive_next]
                .into_iter()
                .flatten()
                .collect();
        transfers.sort_unstable();
        transfers.into_iter().for_each(|transfer| self.complete(transfer));
        self.note_call(method, at, false);
    }

    /// A call that returns at once.
    pub(super) fn call_early(&mut self, method: Method, exchange: Exchange) -> Handles {
        let at = self.program.actions.len();
        let handles = self.post(exchange);
        self.note_call(method, at, true);
        handles
    }

    /// Waits for a transfer of a call that returned at once.
    pub(super) fn wait(&mut self, transfer: Option<u32>) {
        if let Some(transfer) = transfer {
            self.complete(transfer);
        }
    }

    /// Frees an output; nothing to do if it was not sent, is freed already or is kept for other reasons.
    pub(super) fn free(&mut self, output: Option<Piece>) {
        let index = output.map(|piece| self.idx_of(piece));
        match index.and_then(|index| self.to_free[index].take()) {
            Some(slot) => {
                self.program.actions.push(Action::Free(slot));
                self.pools[SlotClass::Send as usize].give_back(slot);
            }
            None => self.note(Note::Free(output)),
        }
    }

    /// The output of a forward, unless nobody takes it.
    pub(super) fn output(&self, (chunk, microbatch): Piece) -> Option<Piece> {
        let last_stage = self.is_last() && chunk.0 + 1 == self.config.vp();
        (!last_stage).then_some((chunk, microbatch))
    }

    /// The gradient of a forward's input, unless nobody takes it.
    pub(super) fn gradient(&self, (chunk, microbatch): Piece) -> Option<Piece> {
        let first_stage = self.is_first() && chunk.0 == 0;
        (!first_stage).then_some((chunk, microbatch))
    }

    /// Whether outputs get a free of their own, rather than being given up with their send.
    fn frees_outputs(&self) -> bool {
        // Megatron's 1F1B frees no output when there are forwards only.
        let dropped_anyway = self.config.kind() == ScheduleKind::OneFOneB && self.config.forward_only();
        self.options.deallocate && !dropped_anyway
    }

    fn note(&mut self, note: Note) {
        self.notes.push((self.program.actions.len() as u32, note));
    }

    fn note_call(&mut self, method: Method, at: usize, returns_early: bool) {
        let n_actions = (self.program.actions.len() - at) as u32;
        self.notes.push((at as u32, Note::Call { method, n_actions, returns_early }));
    }

    fn idx_of(&self, (chunk, microbatch): Piece) -> usize {
        chunk.idx() * self.extent.microbatches as usize + microbatch.idx()
    }

    fn post(&mut self, exchange: Exchange) -> Handles {
        let mut handles = Handles::default();
        let first = self.program.transfers.len() as u32;
        for step in self.issue_order() {
            match step {
                IssueStep::SendNext => handles.send_next = self.send(Direction::Forward, exchange.send_next),
                IssueStep::SendPrevious => {
                    handles.send_previous = self.send(Direction::Backward, exchange.send_previous)
                }
                IssueStep::ReceivePrevious => {
                    handles.receive_previous = self.receive(Direction::Forward, exchange.receive_previous);
                }
                IssueStep::ReceiveNext => {
                    handles.receive_next = self.receive(Direction::Backward, exchange.receive_next);
                }
            }
        }
        let end = self.program.transfers.len() as u32;
        if self.options.issue == Issue::EvenOdd {
            self.program.actions.extend((first..end).map(Action::Post));
        } else if first < end {
            for transfer in &mut self.program.transfers[first as usize..end as usize - 1] {
                transfer.ends_post = false;
            }
            self.program.actions.push(Action::Post(first));
        }
        handles
    }

    fn issue_order(&self) -> [IssueStep; 4] {
        use IssueStep::{ReceiveNext, ReceivePrevious, SendNext, SendPrevious};
        match self.options.issue {
            Issue::Batched | Issue::Ring => [SendPrevious, ReceivePrevious, SendNext, ReceiveNext],
            Issue::EvenOdd if self.rank.0.is_multiple_of(2) => [SendNext, ReceivePrevious, SendPrevious, ReceiveNext],
            Issue::EvenOdd => [ReceivePrevious, SendNext, ReceiveNext, SendPrevious],
        }
    }

    fn send(&mut self, direction: Direction, piece: Option<Piece>) -> Option<u32> {
        let piece @ (chunk, microbatch) = piece?;
        let (index, stage) = (self.idx_of(piece), self.extent.placement.stage_of(self.rank, chunk));
        let maker = match direction {
            Direction::Forward => Work::forward(stage, microbatch),
            Direction::Backward => Work::backward(stage, microbatch),
        };
        let message = output_of(maker, self.extent.placement)?;
        let slot = self.made[direction as usize][index].take()?;
        let frees = direction == Direction::Forward && self.frees_outputs();
        if frees {
            self.to_free[index] = Some(slot);
        }
        let peer = self.ring.after(self.rank, direction);
        let channel = self.ring.leaving(self.rank, direction);
        Some(self.push(Transfer { role: Role::Send, message, channel, peer, slot, releases: !frees, ends_post: true }))
    }

    fn receive(&mut self, direction: Direction, piece: Option<Piece>) -> Option<u32> {
        let piece @ (chunk, microbatch) = piece?;
        let index = self.idx_of(piece);
        let message = Message { direction, stage: self.extent.placement.stage_of(self.rank, chunk), microbatch };
        let slot = self.pools[SlotClass::Receive as usize].take();
        self.arrived[direction as usize][index] = Some(slot);
        let peer = self.ring.before(self.rank, direction);
        let channel = self.ring.leaving(peer, direction);
        Some(self.push(Transfer {
            role: Role::Receive,
            message,
            channel,
            peer,
            slot,
            releases: false,
            ends_post: true,
        }))
    }

    fn push(&mut self, transfer: Transfer) -> u32 {
        self.program.transfers.push(transfer);
        self.program.transfers.len() as u32 - 1
    }

    fn complete(&mut self, index: u32) {
        self.program.actions.push(Action::Wait(index));
        let transfer = &self.program.transfers[index as usize];
        if transfer.role == Role::Send && transfer.releases {
            self.pools[SlotClass::Send as usize].give_back(transfer.slot);
        }
    }

    /// Whether a send's buffer is waited for before it is freed.
    pub(super) fn waits_before_free(&self) -> bool {
        self.options.deallocate && self.options.release == SendRelease::Waited
    }
}

/// A transfer of an exchange, in the order in which it is issued.
#[derive(Clone, Copy)]
enum IssueStep {
    SendNext,
    SendPrevious,
    ReceivePrevious,
    ReceiveNext,
}
