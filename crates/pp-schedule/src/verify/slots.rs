//! One rank's dataflow: every slot is filled, used and emptied in turn, by the messages that belong there.

use crate::deps::{Message, input_of, leaves_state, output_of, state_from};
use crate::ids::{Direction, Microbatch, Rank, Stage};
use crate::program::{Action, Compute, Mark, Program, RankProgram, Role, Slot, SlotClass, Step, Transfer};
use crate::work::{Work, WorkKind};

/// A slot, an operand or a reference that is out of turn on one rank.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("rank {rank}, step {step} ({action}): {fault}")]
pub struct SlotError {
    /// The rank.
    pub rank: Rank,
    /// The index of the action in the rank's program (its length: found at the end).
    pub step: usize,
    /// The action.
    pub action: String,
    /// What is wrong.
    pub fault: String,
}

/// What a slot holds: a tag and what the tag is about. Flat, so that comparing two states is comparing two numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct State {
    tag: Tag,
    /// The stage and microbatch of a message or computation, or the number of a transfer.
    of: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
enum Tag {
    Empty,
    /// Lent to a posted transfer.
    Busy,
    /// Holding a message.
    Activation,
    Gradient,
    /// Holding what a computation left for a later one: a forward, or an input gradient.
    KeptForward,
    KeptInput,
}

const fn pair(stage: Stage, microbatch: Microbatch) -> u64 {
    (stage.0 as u64) << 32 | microbatch.0 as u64
}

impl State {
    const EMPTY: Self = Self { tag: Tag::Empty, of: 0 };

    const fn busy(transfer: u32) -> Self {
        Self { tag: Tag::Busy, of: transfer as u64 }
    }

    const fn full(message: Message) -> Self {
        let tag = match message.direction {
            Direction::Forward => Tag::Activation,
            Direction::Backward => Tag::Gradient,
        };
        Self { tag, of: pair(message.stage, message.microbatch) }
    }

    /// What a computation of a kind that leaves something left.
    const fn kept(kind: WorkKind, work: Work) -> Self {
        let tag = match kind {
            WorkKind::Forward => Tag::KeptForward,
            WorkKind::Backward | WorkKind::BackwardInput | WorkKind::BackwardWeight => Tag::KeptInput,
        };
        Self { tag, of: pair(work.stage, work.microbatch) }
    }

    fn text(self, rank: &RankProgram) -> String {
        let (stage, microbatch) = (Stage((self.of >> 32) as u32), Microbatch(self.of as u32));
        let message = |direction| format!("holding the {}", Message { direction, stage, microbatch });
        let left_by = |kind| format!("holding what {} left", Work { kind, stage, microbatch });
        match self.tag {
            Tag::Empty => "empty".to_owned(),
            Tag::Busy => match rank.transfers.get(self.of as usize) {
                Some(transfer) => format!("in use by a transfer not waited for ({transfer})"),
                None => "in use by a transfer".to_owned(),
            },
            Tag::Activation => message(Direction::Forward),
            Tag::Gradient => message(Direction::Backward),
            Tag::KeptForward => left_by(WorkKind::Forward),
            Tag::KeptInput => left_by(WorkKind::BackwardInput),
        }
    }
}

fn error(program: &RankProgram, step: usize, fault: impl Into<String>) -> SlotError {
    let action = program.step(step).map_or_else(|| "end of the program".to_owned(), |step| step.to_string());
    SlotError { rank: program.rank, step, action, fault: fault.into() }
}

/// Every action refers to something, and every transfer's channel, peer and slot fit its role.
pub(super) fn check_references(program: &Program, rank: Rank) -> Result<(), SlotError> {
    let ranked = &program.ranks[rank.idx()];
    if ranked.rank != rank {
        return Err(error(ranked, 0, format!("the program at place {rank} says it is of rank {}", ranked.rank)));
    }
    for (index, action) in ranked.actions.iter().enumerate() {
        let Some(step) = ranked.step(index) else {
            return Err(error(ranked, index, format!("{action:?} refers to nothing")));
        };
        let fault = match step {
            Step::Post(_, transfers) => transfers.iter().find_map(|transfer| misfit(program, rank, transfer)),
            Step::Mark(mark) => check_mark(program, mark).err(),
            _ => None,
        };
        if let Some(fault) = fault {
            return Err(error(ranked, index, fault));
        }
    }
    Ok(())
}

pub(super) fn check_mark(program: &Program, mark: Mark) -> Result<(), String> {
    let n_chunks = program.extent.placement.n_chunks();
    match mark {
        Mark::SyncGradients(chunk) | Mark::SyncParameters(chunk) if chunk.0 >= n_chunks => {
            Err(format!("there are chunks 0..{n_chunks}"))
        }
        _ => Ok(()),
    }
}

/// Whether the channel that a transfer names is there, and its ends and what it carries are the transfer's.
#[inline]
fn channel_fits(program: &Program, rank: Rank, transfer: &Transfer) -> bool {
    let Some(channel) = program.channels.get(transfer.channel.idx()) else { return false };
    let (mine, theirs) = match transfer.role {
        Role::Send => (channel.source, channel.destination),
        Role::Receive => (channel.destination, channel.source),
    };
    mine == rank && theirs == transfer.peer && channel.carries.includes(transfer.message.direction)
}

/// Whether a transfer's channel, peer and slot fit its role.
#[inline]
pub(super) fn transfer_fits(program: &Program, rank: Rank, transfer: &Transfer) -> bool {
    channel_fits(program, rank, transfer) && transfer.slot.class() == class_for(transfer.role)
}

/// What is wrong with a transfer that does not fit; `None` when it does.
fn misfit(program: &Program, rank: Rank, transfer: &Transfer) -> Option<String> {
    if transfer_fits(program, rank, transfer) {
        return None;
    }
    let class = class_for(transfer.role);
    Some(match program.channels.get(transfer.channel.idx()) {
        None => format!("channel {} does not exist; there are {}", transfer.channel, program.channels.len()),
        Some(channel) if !channel_fits(program, rank, transfer) => format!("it names the {channel}"),
        Some(_) => format!("it uses {}, but should use a {} slot", transfer.slot, class.name()),
    })
}

const fn class_for(role: Role) -> SlotClass {
    match role {
        Role::Send => SlotClass::Send,
        Role::Receive => SlotClass::Receive,
    }
}

/// Runs one rank's program, whose references hold, over the states of its slots.
pub(super) fn check(program: &Program, rank: Rank) -> Result<(), SlotError> {
    let ranked = &program.ranks[rank.idx()];
    let mut run = Run::new(program, ranked);
    for (index, &action) in ranked.actions.iter().enumerate() {
        let done = match action {
            Action::Compute(compute) => run.compute(&ranked.computes[compute as usize]),
            Action::Post(first) => run.post_all(first),
            Action::Wait(transfer) => run.wait(transfer, &ranked.transfers[transfer as usize]),
            Action::Free(slot) => run.free(slot),
            Action::Mark(_) => Ok(()),
        };
        done.map_err(|fault| error(ranked, index, fault))?;
    }
    run.at_end().map_err(|fault| error(ranked, ranked.actions.len(), fault))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    Idle,
    Posted,
    Done,
}

/// The states of one rank's slots and transfers while its program runs.
pub(super) struct Run<'a> {
    program: &'a Program,
    ranked: &'a RankProgram,
    /// By class; slots past the end of the list have not been touched and are empty.
    slots: [Vec<State>; 4],
    progress: Vec<Progress>,
}

impl<'a> Run<'a> {
    pub(super) fn new(program: &'a Program, ranked: &'a RankProgram) -> Self {
        let progress = vec![Progress::Idle; ranked.transfers.len()];
        Self { program, ranked, slots: SlotClass::ALL.map(|_| Vec::new()), progress }
    }

    /// Moves a slot, which is of this class, from one state to the next; refuses when it is in another.
    #[inline]
    fn turn(&mut self, class: SlotClass, slot: Slot, from: State, to: State) -> Result<(), String> {
        debug_assert_eq!(slot.class(), class);
        match self.slots[class as usize].get_mut(slot.idx()) {
            Some(state) if *state == from => {
                *state = to;
                Ok(())
            }
            Some(state) => Err(out_of_turn(self.ranked, slot, *state, from)),
            None if from == State::EMPTY => {
                let slots = &mut self.slots[class as usize];
                slots.resize(slot.idx() + 1, State::EMPTY);
                slots[slot.idx()] = to;
                Ok(())
            }
            None => Err(out_of_turn(self.ranked, slot, State::EMPTY, from)),
        }
    }

    /// Posts the transfers that a post starts.
    pub(super) fn post_all(&mut self, first: u32) -> Result<(), String> {
        let posted = self.ranked.posted(first).unwrap_or_default();
        (first..).zip(posted).try_for_each(|(index, transfer)| self.post(index, transfer))
    }

    /// Posts a transfer, which is number `index`.
    #[inline]
    pub(super) fn post(&mut self, index: u32, transfer: &Transfer) -> Result<(), String> {
        let progress = &mut self.progress[index as usize];
        if *progress != Progress::Idle {
            return Err("this transfer was posted before".to_owned());
        }
        *progress = Progress::Posted;
        let from = match transfer.role {
            Role::Send => State::full(transfer.message),
            Role::Receive => State::EMPTY,
        };
        self.turn(class_for(transfer.role), transfer.slot, from, State::busy(index))
    }

    /// Waits for a transfer, which is number `index`.
    #[inline]
    pub(super) fn wait(&mut self, index: u32, transfer: &Transfer) -> Result<(), String> {
        let progress = &mut self.progress[index as usize];
        if *progress != Progress::Posted {
            return Err(match progress {
                Progress::Idle => "this transfer is not posted yet".to_owned(),
                _ => "this transfer was waited for before".to_owned(),
            });
        }
        *progress = Progress::Done;
        let empties = transfer.role == Role::Send && transfer.releases;
        let to = if empties { State::EMPTY } else { State::full(transfer.message) };
        self.turn(class_for(transfer.role), transfer.slot, State::busy(index), to)
    }

    pub(super) fn free(&mut self, slot: Slot) -> Result<(), String> {
        let state = self.slots[SlotClass::Send as usize].get_mut(slot.idx());
        match state {
            Some(state) if slot.class() == SlotClass::Send && matches!(state.tag, Tag::Activation | Tag::Gradient) => {
                *state = State::EMPTY;
                Ok(())
            }
            _ => Err(self.nothing_to_free(slot)),
        }
    }

    #[cold]
    fn nothing_to_free(&self, slot: Slot) -> String {
        if slot.class() != SlotClass::Send || slot.idx() >= self.ranked.n_slots(SlotClass::Send) {
            return "it is no send slot of this rank".to_owned();
        }
        let state = self.slots[SlotClass::Send as usize].get(slot.idx()).copied().unwrap_or(State::EMPTY);
        format!("{slot} is {}, so there is nothing to give up", state.text(self.ranked))
    }

    #[inline]
    pub(super) fn compute(&mut self, compute: &Compute) -> Result<(), String> {
        let placement = self.program.extent.placement;
        let work = compute.work;
        let input = input_of(work, placement);
        if let Some((slot, message)) = operand("input", compute.input, input, SlotClass::Receive)? {
            self.turn(slot.class(), slot, State::full(message), State::EMPTY)?;
        }
        let output = output_of(work, placement);
        if let Some((slot, message)) = operand("output", compute.output, output, SlotClass::Send)? {
            self.turn(slot.class(), slot, State::EMPTY, State::full(message))?;
        }
        self.state(compute)
    }

    /// The state that a computation takes over and leaves.
    #[inline]
    fn state(&mut self, compute: &Compute) -> Result<(), String> {
        let work = compute.work;
        let taken = state_from(work.kind);
        let leaves = leaves_state(work.kind, self.program.extent.forward_only);
        let Some(slot) = compute.saved else {
            return match (taken, leaves) {
                (None, false) => Ok(()),
                (Some(kind), _) => Err(format!("it has no slot with what {} leaves", Work { kind, ..work })),
                (None, true) => Err("it has no slot to leave its state in".to_owned()),
            };
        };
        if slot.class() != SlotClass::Saved {
            return Err(format!("its state is in {slot}, which is for something else"));
        }
        if taken.is_none() && !leaves {
            return Err(format!("it keeps no state, but names {slot}"));
        }
        let from = taken.map_or(State::EMPTY, |kind| State::kept(kind, work));
        self.turn(SlotClass::Saved, slot, from, if leaves { State::kept(work.kind, work) } else { State::EMPTY })
    }

    /// At the end every slot is empty. Sends may still be under way: the step ends once they are complete.
    pub(super) fn at_end(&self) -> Result<(), String> {
        for class in SlotClass::ALL {
            let left = self.slots[class as usize].iter().enumerate().find(|(_, state)| match state.tag {
                Tag::Empty => false,
                Tag::Busy => {
                    let transfer = &self.ranked.transfers[state.of as usize];
                    transfer.role == Role::Receive || !transfer.releases
                }
                _ => true,
            });
            if let Some((index, state)) = left {
                return Err(format!("{} slot {index} is left {}", class.name(), state.text(self.ranked)));
            }
        }
        let idle = self.progress.iter().zip(&self.ranked.transfers).find(|(progress, _)| **progress == Progress::Idle);
        match idle {
            Some((_, transfer)) => Err(format!("never posted: {transfer}")),
            None => Ok(()),
        }
    }
}

#[cold]
fn out_of_turn(rank: &RankProgram, slot: Slot, is: State, needed: State) -> String {
    format!("{slot} is {}, but must be {}", is.text(rank), needed.text(rank))
}

/// A computation's input or output: the slot it names and the message that belongs there, both or neither.
#[inline]
fn operand(
    name: &str,
    slot: Option<Slot>,
    message: Option<Message>,
    remote: SlotClass,
) -> Result<Option<(Slot, Message)>, String> {
    match (slot, message) {
        (None, None) => Ok(None),
        (Some(slot), Some(message)) if slot.class() == remote || slot.class() == SlotClass::Local => {
            Ok(Some((slot, message)))
        }
        (Some(slot), Some(_)) => Err(format!("its {name} is in {slot}, which is for something else")),
        (None, Some(message)) => Err(format!("it has no {name} slot for the {message}")),
        (Some(slot), None) => Err(format!("it has no {name}, but names {slot}")),
    }
}
