//! One rank's dataflow: every slot is filled, used and emptied in turn, by the messages that belong there.

use crate::deps::{Message, input_of, leaves_state, output_of, state_from};
use crate::ids::{Chunk, Rank};
use crate::program::{Action, Compute, Mark, Program, RankProgram, Role, Slot, SlotClass, Step, Transfer};
use crate::work::Work;

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

/// What a slot holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Empty,
    /// A posted transfer, by its number.
    Busy(u32),
    Full(Message),
    /// What a computation left for a later one.
    Kept(Work),
}

impl State {
    fn text(self, rank: &RankProgram) -> String {
        match self {
            Self::Empty => "empty".to_owned(),
            Self::Busy(transfer) => match rank.transfers.get(transfer as usize) {
                Some(transfer) => format!("in use by a transfer not waited for ({transfer})"),
                None => "in use by a transfer".to_owned(),
            },
            Self::Full(message) => format!("holding the {message}"),
            Self::Kept(work) => format!("holding what {work} left"),
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
            Step::Post(_, transfers) => {
                transfers.iter().find_map(|transfer| check_transfer(program, rank, transfer).err())
            }
            Step::Mark(Mark::SyncGradients(chunk) | Mark::SyncParameters(chunk)) => check_chunk(program, chunk).err(),
            _ => None,
        };
        if let Some(fault) = fault {
            return Err(error(ranked, index, fault));
        }
    }
    Ok(())
}

fn check_chunk(program: &Program, chunk: Chunk) -> Result<(), String> {
    let n_chunks = program.extent.placement.n_chunks();
    if chunk.0 < n_chunks { Ok(()) } else { Err(format!("there are chunks 0..{n_chunks}")) }
}

fn check_transfer(program: &Program, rank: Rank, transfer: &Transfer) -> Result<(), String> {
    let Some(channel) = program.channels.get(transfer.channel.idx()) else {
        return Err(format!("channel {} does not exist; there are {}", transfer.channel, program.channels.len()));
    };
    let (source, destination, class) = match transfer.role {
        Role::Send => (rank, transfer.peer, SlotClass::Send),
        Role::Receive => (transfer.peer, rank, SlotClass::Receive),
    };
    let fits = (channel.source, channel.destination) == (source, destination);
    if !fits || !channel.carries.includes(transfer.message.direction) {
        return Err(format!("it names the {channel}"));
    }
    if transfer.slot.class() != class {
        return Err(format!("it uses {}, but should use a {} slot", transfer.slot, class.name()));
    }
    Ok(())
}

/// Runs one rank's program over the states of its slots.
pub(super) fn check(program: &Program, rank: Rank) -> Result<(), SlotError> {
    let ranked = &program.ranks[rank.idx()];
    let mut run = Run {
        program,
        ranked,
        slots: SlotClass::ALL.map(|class| vec![State::Empty; ranked.n_slots(class)]),
        progress: vec![Progress::Idle; ranked.transfers.len()],
    };
    for (index, &action) in ranked.actions.iter().enumerate() {
        let done = match action {
            Action::Compute(compute) => run.compute(&ranked.computes[compute as usize]),
            Action::Post(first) => run.post_all(first),
            Action::Wait(transfer) => run.wait(transfer),
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

struct Run<'a> {
    program: &'a Program,
    ranked: &'a RankProgram,
    slots: [Vec<State>; 4],
    progress: Vec<Progress>,
}

impl Run<'_> {
    fn at(&mut self, slot: Slot) -> &mut State {
        &mut self.slots[slot.class() as usize][slot.idx()]
    }

    /// Moves a slot from one state to the next; refuses when it is in another.
    #[inline]
    fn turn(&mut self, slot: Slot, from: State, to: State) -> Result<(), String> {
        let state = self.at(slot);
        if *state == from {
            *state = to;
            return Ok(());
        }
        let (is, needed) = (state.text(self.ranked), from.text(self.ranked));
        Err(format!("{slot} is {is}, but must be {needed}"))
    }

    fn post_all(&mut self, first: u32) -> Result<(), String> {
        let n_posted = self.ranked.posted(first).map_or(0, <[Transfer]>::len) as u32;
        (first..first + n_posted).try_for_each(|index| self.post(index))
    }

    fn post(&mut self, index: u32) -> Result<(), String> {
        if self.progress[index as usize] != Progress::Idle {
            return Err("this transfer was posted before".to_owned());
        }
        self.progress[index as usize] = Progress::Posted;
        let transfer = &self.ranked.transfers[index as usize];
        match transfer.role {
            Role::Send => self.turn(transfer.slot, State::Full(transfer.message), State::Busy(index)),
            Role::Receive => self.turn(transfer.slot, State::Empty, State::Busy(index)),
        }
    }

    fn wait(&mut self, index: u32) -> Result<(), String> {
        if self.progress[index as usize] != Progress::Posted {
            return Err(match self.progress[index as usize] {
                Progress::Idle => "this transfer is not posted yet".to_owned(),
                _ => "this transfer was waited for before".to_owned(),
            });
        }
        self.progress[index as usize] = Progress::Done;
        let transfer = &self.ranked.transfers[index as usize];
        match transfer.role {
            Role::Send if transfer.releases => self.turn(transfer.slot, State::Busy(index), State::Empty),
            Role::Send => self.turn(transfer.slot, State::Busy(index), State::Full(transfer.message)),
            Role::Receive => self.turn(transfer.slot, State::Busy(index), State::Full(transfer.message)),
        }
    }

    fn free(&mut self, slot: Slot) -> Result<(), String> {
        let ranked = self.ranked;
        let is_send = slot.class() == SlotClass::Send && slot.idx() < self.slots[SlotClass::Send as usize].len();
        if !is_send {
            return Err("it is no send slot of this rank".to_owned());
        }
        match *self.at(slot) {
            State::Full(_) => *self.at(slot) = State::Empty,
            state => return Err(format!("{slot} is {}, so there is nothing to give up", state.text(ranked))),
        }
        Ok(())
    }

    fn compute(&mut self, compute: &Compute) -> Result<(), String> {
        let placement = self.program.extent.placement;
        let operand = |name: &str, slot: Option<Slot>, message: Option<Message>, classes: [SlotClass; 2]| {
            let (slot, message) = match (slot, message) {
                (None, None) => return Ok(None),
                (Some(slot), Some(message)) => (slot, message),
                (None, Some(message)) => return Err(format!("it has no {name} slot for the {message}")),
                (Some(slot), None) => return Err(format!("it has no {name}, but names {slot}")),
            };
            if classes.contains(&slot.class()) {
                Ok(Some((slot, message)))
            } else {
                Err(format!("its {name} is in {slot}, which is for something else"))
            }
        };
        let work = compute.work;
        let input = input_of(work, placement);
        if let Some((slot, message)) = operand("input", compute.input, input, [SlotClass::Receive, SlotClass::Local])? {
            self.turn(slot, State::Full(message), State::Empty)?;
        }
        let output = output_of(work, placement);
        if let Some((slot, message)) = operand("output", compute.output, output, [SlotClass::Send, SlotClass::Local])? {
            self.turn(slot, State::Empty, State::Full(message))?;
        }
        self.state(compute)
    }

    /// The state that a computation takes over and leaves.
    fn state(&mut self, compute: &Compute) -> Result<(), String> {
        let work = compute.work;
        let taken = state_from(work.kind).map(|kind| Work { kind, ..work });
        let leaves = leaves_state(work.kind, self.program.extent.forward_only);
        let Some(slot) = compute.saved else {
            return match (taken, leaves) {
                (None, false) => Ok(()),
                (Some(needed), _) => Err(format!("it has no slot with what {needed} leaves")),
                (None, true) => Err("it has no slot to leave its state in".to_owned()),
            };
        };
        if slot.class() != SlotClass::Saved {
            return Err(format!("its state is in {slot}, which is for something else"));
        }
        if taken.is_none() && !leaves {
            return Err(format!("it keeps no state, but names {slot}"));
        }
        let from = taken.map_or(State::Empty, State::Kept);
        self.turn(slot, from, if leaves { State::Kept(work) } else { State::Empty })
    }

    /// At the end every slot is empty. Sends may still be under way: the step ends once they are complete.
    fn at_end(&self) -> Result<(), String> {
        for class in SlotClass::ALL {
            let left = self.slots[class as usize].iter().enumerate().find(|(_, state)| match **state {
                State::Empty => false,
                State::Busy(index) => {
                    let transfer = &self.ranked.transfers[index as usize];
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
