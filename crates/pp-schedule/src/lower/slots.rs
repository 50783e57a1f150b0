//! Slot numbers, handed out lowest first and taken back.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::program::{Slot, SlotClass};

/// The free slots of one class on one rank.
#[derive(Debug)]
pub(super) struct SlotPool {
    class: SlotClass,
    free: BinaryHeap<Reverse<u32>>,
    next: u32,
}

impl SlotPool {
    pub(super) fn new(class: SlotClass) -> Self {
        Self { class, free: BinaryHeap::new(), next: 0 }
    }

    pub(super) fn take(&mut self) -> Slot {
        let index = self.free.pop().map_or(self.next, |Reverse(index)| index);
        self.next = self.next.max(index + 1);
        Slot::new(self.class, index)
    }

    pub(super) fn give_back(&mut self, slot: Slot) {
        debug_assert_eq!(slot.class(), self.class);
        self.free.push(Reverse(slot.idx() as u32));
    }
}
