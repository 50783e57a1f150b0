//! Results that come in turn and are taken in any order, or not at all.

use std::collections::{BTreeMap, BTreeSet};

/// Things numbered from 0 in the order in which they come, each taken at most once. It holds only what has come and may
/// still be taken.
#[derive(Debug)]
pub(crate) struct Numbered<T> {
    things: BTreeMap<u64, T>,
    /// What nobody will take, and has not come.
    unwanted: BTreeSet<u64>,
    n_come: u64,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Self { things: BTreeMap::new(), unwanted: BTreeSet::new(), n_come: 0 }
    }
}

impl<T> Numbered<T> {
    /// Adds the next thing.
    pub(crate) fn push(&mut self, thing: T) {
        if !self.unwanted.remove(&self.n_come) {
            self.things.insert(self.n_come, thing);
        }
        self.n_come += 1;
    }

    /// Whether a thing is there to be taken.
    pub(crate) fn has(&self, number: u64) -> bool {
        self.things.contains_key(&number)
    }

    #[cfg(test)]
    pub(crate) fn n_held(&self) -> usize {
        self.things.len()
    }

    /// Takes a thing out, if it has come and was not taken.
    pub(crate) fn take(&mut self, number: u64) -> Option<T> {
        self.things.remove(&number)
    }

    /// Nobody will take this one: it is let go as soon as it has come.
    pub(crate) fn abandon(&mut self, number: u64) {
        if self.take(number).is_none() && number >= self.n_come {
            self.unwanted.insert(number);
        }
    }

    /// How many have come so far.
    pub(crate) const fn n_come(&self) -> u64 {
        self.n_come
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

    #[test]
    fn nothing_is_held_for_what_was_taken_or_is_unwanted() {
        let mut things = Numbered::default();
        things.push(0);
        [0, 2, 3].into_iter().for_each(|number| things.abandon(number));
        assert!(things.things.is_empty(), "let go at once where it has come");
        (1..1000).for_each(|thing| {
            things.push(thing);
            assert!(thing == 1 || things.take(thing).is_some() != (thing == 2 || thing == 3));
        });
        // Number 1 was neither taken nor abandoned, and holds nothing but itself.
        assert_eq!((things.things.len(), things.unwanted.len(), things.n_come()), (1, 0, 1000));
        assert!(things.has(1) && !things.has(2));
    }
}
