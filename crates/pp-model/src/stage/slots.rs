//! Where state waits between a forward and its backward: the program says in which slot.

use pp_comm::Task;
use pp_schedule::{Slot, Work};

use crate::chunk::{ChunkSaved, ChunkWork};
use crate::error::{ModelError, Result};

/// What waits in a slot.
#[derive(Debug)]
pub(super) enum State {
    /// What a forward left for its backward.
    Saved(ChunkSaved),
    /// What an input gradient left for its weight gradient.
    Work(ChunkWork),
}

impl State {
    fn name(&self) -> &'static str {
        match self {
            Self::Saved(_) => "the state of a forward",
            Self::Work(_) => "the state of an input gradient",
        }
    }
}

/// The slots, by index; grows to what the program uses.
#[derive(Debug, Default)]
pub(super) struct Slots(Vec<Option<(Work, State)>>);

impl Slots {
    /// Puts down the state that `task` leaves. The slot must be free.
    pub(super) fn put(&mut self, task: Task, slot: Slot, state: State) -> Result<()> {
        let slot = slot.idx();
        if self.0.len() <= slot {
            self.0.resize_with(slot + 1, || None);
        }
        if let Some((_, state)) = &self.0[slot] {
            return Err(ModelError::SlotInUse { work: task.work, slot, found: state.name() });
        }
        self.0[slot] = Some((task.work, state));
        Ok(())
    }

    /// Takes what the forward of `task`'s stage and microbatch left.
    pub(super) fn take_saved(&mut self, task: Task) -> Result<ChunkSaved> {
        match self.take(task, "forward")? {
            State::Saved(saved) => Ok(saved),
            state @ State::Work(_) => Err(no_state(task, "forward", state.name())),
        }
    }

    /// Takes what the input gradient of `task`'s stage and microbatch left.
    pub(super) fn take_work(&mut self, task: Task) -> Result<ChunkWork> {
        match self.take(task, "input gradient")? {
            State::Work(work) => Ok(work),
            state @ State::Saved(_) => Err(no_state(task, "input gradient", state.name())),
        }
    }

    /// Drops everything.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    fn take(&mut self, task: Task, wanted: &'static str) -> Result<State> {
        let held = task.saved.and_then(|slot| self.0.get_mut(slot.idx())).and_then(Option::take);
        match held {
            Some((of, state)) if (of.stage, of.microbatch) == (task.work.stage, task.work.microbatch) => Ok(state),
            Some(_) => Err(no_state(task, wanted, "that of another stage or microbatch")),
            None => Err(no_state(task, wanted, "nothing")),
        }
    }
}

fn no_state(task: Task, wanted: &'static str, found: &'static str) -> ModelError {
    let slot = task.saved.map_or_else(|| "none".to_owned(), |slot| slot.idx().to_string());
    ModelError::NoState { work: task.work, wanted, slot, found }
}
