//! What touched an allocation and may still race.

use std::ops::Range;
use std::sync::Arc;

use super::piece::Touch;
use crate::job::Kind;

/// A touch and which of its bytes still count.
#[derive(Debug)]
struct Entry {
    touch: Arc<Touch>,
    range: Range<usize>,
}

/// The touches of one allocation that a later one may race with.
#[derive(Debug, Default)]
pub(super) struct History(Vec<Entry>);

impl History {
    /// Those that would race with a touch, were there no order.
    pub(super) fn conflicting<'a>(&'a self, touch: &'a Touch) -> impl Iterator<Item = &'a Arc<Touch>> {
        let counts = |entry: &&Entry| entry.range.start < touch.range.end && touch.range.start < entry.range.end;
        self.0.iter().filter(counts).map(|entry| &entry.touch).filter(|earlier| earlier.conflicts(touch))
    }

    /// One more.
    pub(super) fn push(&mut self, touch: Arc<Touch>) {
        let range = touch.range.clone();
        self.0.push(Entry { touch, range });
    }

    /// Drops what a settled touch stands for from now on: see the module's doc.
    pub(super) fn supersede(&mut self, by: &Touch) {
        let mut rests = Vec::new();
        self.0.retain_mut(|entry| {
            let stands = by.kind == Kind::Write || entry.touch.kind == Kind::Read;
            let overlaps = entry.range.start < by.range.end && by.range.start < entry.range.end;
            // Not what the same piece touches: two of its touches would else drop each other.
            let is_own = Arc::ptr_eq(&entry.touch.piece, &by.piece);
            if !stands || !overlaps || is_own || !by.is_after(&entry.touch) {
                return true;
            }
            let before = entry.range.start..by.range.start;
            let after = by.range.end..entry.range.end;
            if !before.is_empty() && !after.is_empty() {
                rests.push(Entry { touch: Arc::clone(&entry.touch), range: after });
                entry.range = before;
            } else if !before.is_empty() {
                entry.range = before;
            } else {
                entry.range = after;
            }
            !entry.range.is_empty()
        });
        self.0.append(&mut rests);
    }

    /// How many entries there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
