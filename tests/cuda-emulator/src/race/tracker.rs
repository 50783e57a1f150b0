//! Compares touches as they are queued, and again once their clocks are known.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use super::history::History;
use super::piece::{Piece, Race, Touch};
use crate::clock::Clock;
use crate::job::Kind;

/// The touches of all allocations, each under a number of the caller's.
#[derive(Debug, Default)]
pub struct Tracker {
    histories: HashMap<u64, History>,
    /// By touch: those that only a peer could have ordered with it.
    undecided: HashMap<u64, Vec<Race>>,
    n_touches: u64,
}

impl Tracker {
    /// A piece that is being queued touches bytes of an allocation. Gives the touch, and the races that are certain now.
    pub fn add(
        &mut self,
        allocation: u64,
        piece: &Arc<Piece>,
        kind: Kind,
        range: Range<usize>,
    ) -> (Arc<Touch>, Vec<Race>) {
        self.n_touches += 1;
        let touch = Arc::new(Touch::new(self.n_touches, allocation, Arc::clone(piece), kind, range));
        let mut races: Vec<Race> = Vec::new();
        let mut seen = HashSet::new();
        let history = self.histories.entry(allocation).or_default();
        for earlier in history.conflicting(&touch) {
            // What is left of a touch may be in several ranges.
            if touch.is_after(earlier) || !seen.insert(earlier.id) {
                continue;
            }
            let race = Race { first: Arc::clone(earlier), second: Arc::clone(&touch) };
            if touch.may_come_after(earlier) || earlier.may_come_after(&touch) {
                self.undecided.entry(earlier.id).or_default().push(race.clone());
                self.undecided.entry(touch.id).or_default().push(race);
            } else {
                races.push(race);
            }
        }
        history.push(Arc::clone(&touch));
        (touch, races)
    }

    /// Says what is ordered before a touch as it happens. Gives the races that are certain now.
    pub fn settle(&mut self, touch: &Arc<Touch>, clock: &Clock) -> Vec<Race> {
        if touch.is_settled() {
            return Vec::new();
        }
        touch.set_clock(clock);
        if let Some(history) = self.histories.get_mut(&touch.allocation) {
            history.supersede(touch);
        }
        let mut races = self.undecided.remove(&touch.id).unwrap_or_default();
        races.retain(|Race { first, second }| {
            first.is_settled() && second.is_settled() && !first.is_after(second) && !second.is_after(first)
        });
        races
    }

    /// Nothing can touch an allocation any more.
    pub fn forget(&mut self, allocation: u64) {
        self.histories.remove(&allocation);
    }

    /// How many entries are kept of an allocation.
    #[cfg(test)]
    pub(super) fn kept(&self, allocation: u64) -> usize {
        self.histories.get(&allocation).map_or(0, History::len)
    }
}
