//! Slot numbers, handed out lowest first and taken back.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::program::{Slot, SlotClass};

/// The free slots of one class on one rank.
#[derive(Debug)]
pub(super) struct SlotPool {
    class: SlotClass,
    /// The lowest of the free ones, or none when that is on the heap. In a steady state one slot goes back and forth, and
    /// the heap is left alone.
    lowest: Option<u32>,
    others: BinaryHeap<Reverse<u32>>,
    next: u32,
}

impl SlotPool {
    pub(super) fn new(class: SlotClass) -> Self {
        Self { class, lowest: None, others: BinaryHeap::new(), next: 0 }
    }

    #[inline]
    pub(super) fn take(&mut self) -> Slot {
        let free = self.lowest.take().or_else(|| self.others.pop().map(|Reverse(index)| index));
        let index = free.unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        });
        Slot::new(self.class, index)
    }

    #[inline]
    pub(super) fn give_back(&mut self, slot: Slot) {
        debug_assert_eq!(slot.class(), self.class);
        let index = slot.idx() as u32;
        let other = match self.lowest {
            Some(lowest) if lowest < index => index,
            Some(lowest) => {
                self.lowest = Some(index);
                lowest
            }
            None if self.others.peek().is_none_or(|Reverse(other)| index < *other) => {
                self.lowest = Some(index);
                return;
            }
            None => index,
        };
        self.others.push(Reverse(other));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_free_slot_is_taken() {
        let mut pool = SlotPool::new(SlotClass::Saved);
        let mut taken = |give: &[u32], take: usize| -> Vec<usize> {
            give.iter().for_each(|&index| pool.give_back(Slot::new(SlotClass::Saved, index)));
            (0..take).map(|_| pool.take().idx()).collect()
        };
        assert_eq!(taken(&[], 5), [0, 1, 2, 3, 4]);
        assert_eq!(taken(&[3, 1, 4], 1), [1]);
        assert_eq!(taken(&[0], 1), [0]);
        assert_eq!(taken(&[2], 4), [2, 3, 4, 5]);
        assert_eq!(taken(&[2, 5, 0], 4), [0, 2, 5, 6]);
    }
}
