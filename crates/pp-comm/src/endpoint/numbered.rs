//! Results that come in turn and are taken in any order.

use std::collections::VecDeque;

/// Things numbered from 0 in the order in which they come, each taken at most once.
#[derive(Debug)]
pub(super) struct Numbered<T> {
    /// Things from number `first` on; none where it was taken.
    things: VecDeque<Option<T>>,
    first: u64,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Self { things: VecDeque::new(), first: 0 }
    }
}

impl<T> Numbered<T> {
    /// Adds the next thing.
    pub(super) fn push(&mut self, thing: T) {
        self.things.push_back(Some(thing));
    }

    /// Takes a thing out, if it has come and was not taken.
    pub(super) fn take(&mut self, number: u64) -> Option<T> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        let taken = self.things.get_mut(index)?.take();
        while let Some(None) = self.things.front() {
            self.things.pop_front();
            self.first += 1;
        }
        taken
    }

    /// How many have come so far.
    pub(super) fn n_come(&self) -> u64 {
        self.first + self.things.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_are_taken_once_and_in_any_order() {
        let mut things = Numbered::default();
        (0..3).for_each(|thing| things.push(thing));
        assert_eq!((things.take(2), things.take(0), things.take(0), things.n_come()), (Some(2), Some(0), None, 3));
        things.push(3);
        assert_eq!((things.take(4), things.take(1), things.take(2), things.take(3)), (None, Some(1), None, Some(3)));
        assert_eq!((things.n_come(), things.things.len()), (4, 0));
    }
}
