//! The buffers of a step in progress, by the slots that the program gives them, and a count of what is in use.

use pp_schedule::{RankProgram, Slot, SlotClass};

use super::fault::ExecFault;
use crate::message::Buffer;

/// A place per slot. What the saved slots stand for is kept by the stage; they are only counted here.
pub(super) struct Slots {
    places: [Vec<Place>; 4],
    in_use: [usize; 4],
    peak: [usize; 4],
    n_bytes: u64,
    peak_bytes: u64,
}

#[derive(Default)]
struct Place {
    buffer: Option<Buffer>,
    /// Of what it is in use for, wherever that is at the moment.
    n_bytes: u64,
}

impl Slots {
    pub(super) fn new(program: &RankProgram) -> Self {
        let places = SlotClass::ALL.map(|class| match class {
            SlotClass::Saved => Vec::new(),
            _ => std::iter::repeat_with(Place::default).take(program.n_slots(class)).collect(),
        });
        Self { places, in_use: [0; 4], peak: [0; 4], n_bytes: 0, peak_bytes: 0 }
    }

    /// The most slots in use at once, by class.
    pub(super) const fn peak(&self) -> [usize; 4] {
        self.peak
    }

    /// The most bytes that the buffers in use had at once.
    pub(super) const fn peak_bytes(&self) -> u64 {
        self.peak_bytes
    }

    /// Counts a slot as in use, from when its memory is promised.
    pub(super) fn occupy(&mut self, slot: Slot, n_bytes: usize) {
        let class = slot.class() as usize;
        self.in_use[class] += 1;
        self.peak[class] = self.peak[class].max(self.in_use[class]);
        if let Some(place) = self.places[class].get_mut(slot.idx()) {
            place.n_bytes = n_bytes as u64;
            self.n_bytes += place.n_bytes;
            self.peak_bytes = self.peak_bytes.max(self.n_bytes);
        }
    }

    /// Counts a slot as free again, and gives up what is in it.
    pub(super) fn release(&mut self, slot: Slot) {
        let class = slot.class() as usize;
        self.in_use[class] = self.in_use[class].saturating_sub(1);
        if let Some(place) = self.places[class].get_mut(slot.idx()) {
            self.n_bytes -= place.n_bytes;
            *place = Place::default();
        }
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
        let place = self.places[slot.class() as usize].get_mut(slot.idx());
        place.map(|place| &mut place.buffer).ok_or_else(|| ExecFault::Unsound(format!("{slot} holds no buffer")))
    }
}
