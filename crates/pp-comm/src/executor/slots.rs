//! The buffers of a step in progress, by the slots that the program gives them, and a count of the slots in use.

use pp_schedule::{RankProgram, Slot, SlotClass};

use super::ExecFault;
use crate::message::Buffer;

/// A place per slot. What the saved slots stand for is kept by the stage; they are only counted here.
pub(super) struct Slots {
    buffers: [Vec<Option<Buffer>>; 4],
    in_use: [usize; 4],
    peak: [usize; 4],
}

impl Slots {
    pub(super) fn new(program: &RankProgram) -> Self {
        let buffers = SlotClass::ALL.map(|class| match class {
            SlotClass::Saved => Vec::new(),
            _ => std::iter::repeat_with(|| None).take(program.n_slots(class)).collect(),
        });
        Self { buffers, in_use: [0; 4], peak: [0; 4] }
    }

    /// The most slots in use at once, by class.
    pub(super) const fn peak(&self) -> [usize; 4] {
        self.peak
    }

    /// Counts a slot as in use, from when its memory is promised.
    pub(super) fn occupy(&mut self, slot: Slot) {
        let class = slot.class() as usize;
        self.in_use[class] += 1;
        self.peak[class] = self.peak[class].max(self.in_use[class]);
    }

    /// Counts a slot as free again.
    pub(super) fn release(&mut self, slot: Slot) {
        let in_use = &mut self.in_use[slot.class() as usize];
        *in_use = in_use.saturating_sub(1);
    }

    pub(super) fn put(&mut self, slot: Slot, buffer: Buffer) -> Result<(), ExecFault> {
        match self.place(slot)?.replace(buffer) {
            None => Ok(()),
            Some(_) => Err(ExecFault::Unsound(format!("{slot} is filled while it is in use"))),
        }
    }

    pub(super) fn take(&mut self, slot: Slot) -> Result<Buffer, ExecFault> {
        self.place(slot)?.take().ok_or_else(|| ExecFault::Unsound(format!("{slot} is read while it is empty")))
    }

    fn place(&mut self, slot: Slot) -> Result<&mut Option<Buffer>, ExecFault> {
        let place = self.buffers[slot.class() as usize].get_mut(slot.idx());
        place.ok_or_else(|| ExecFault::Unsound(format!("{slot} holds no buffer")))
    }
}
