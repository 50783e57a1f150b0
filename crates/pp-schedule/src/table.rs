//! Megatron's schedule table: which microbatch and chunk a virtual microbatch id (`vid`) stands for.

use crate::groups::Groups;
use crate::ids::{Chunk, Direction, Microbatch};

/// The table `vid -> (microbatch, chunk)` that every rank of an interleaved pipeline follows.
///
/// For each group of microbatches it lists chunk 0 for all of them, then chunk 1, and so on. Backward uses the same
/// table with the chunks counted from the last.
///
/// ```
/// use pp_schedule::{Groups, ScheduleTable};
/// let table = ScheduleTable::new(5, 2, Groups::Uniform { size: 3 });
/// let chunks: Vec<u32> = table.entries().iter().map(|(_, chunk)| chunk.0).collect();
/// assert_eq!(chunks, [0, 0, 0, 1, 1, 1, 0, 0, 1, 1]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleTable {
    entries: Vec<(Microbatch, Chunk)>,
    n_chunks: u32,
}

impl ScheduleTable {
    /// The table of `microbatches` over `n_chunks` chunks.
    pub fn new(microbatches: u32, n_chunks: u32, groups: Groups) -> Self {
        let mut entries = Vec::with_capacity(microbatches as usize * n_chunks as usize);
        let mut start = 0;
        for size in groups.sizes(microbatches) {
            for chunk in 0..n_chunks {
                entries.extend((start..start + size).map(|microbatch| (Microbatch(microbatch), Chunk(chunk))));
            }
            start += size;
        }
        Self { entries, n_chunks }
    }

    /// The rows, by `vid`.
    pub fn entries(&self) -> &[(Microbatch, Chunk)] {
        &self.entries
    }

    /// Number of virtual microbatches, `microbatches * n_chunks`.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The microbatch and chunk that step `vid` of a direction works on; `None` past the end.
    pub fn get(&self, direction: Direction, vid: usize) -> Option<(Microbatch, Chunk)> {
        let &(microbatch, chunk) = self.entries.get(vid)?;
        Some((microbatch, self.directed(direction, chunk)))
    }

    /// The microbatches and chunks of a direction, by `vid`.
    pub fn rows(&self, direction: Direction) -> impl Iterator<Item = (Microbatch, Chunk)> + '_ {
        self.entries.iter().map(move |&(microbatch, chunk)| (microbatch, self.directed(direction, chunk)))
    }

    /// Megatron's order of chunks for a rank with `warmup` forwards ahead: `k + 1` stands for a forward of chunk `k`,
    /// `-(k + 1)` for its backward.
    pub fn signed_chunk_order(&self, warmup: usize) -> Vec<i64> {
        let forward = |vid: usize| i64::from(self.entries[vid].1.0) + 1;
        let backward = |vid: usize| -(i64::from(self.directed(Direction::Backward, self.entries[vid].1).0) + 1);
        let (warmup, total) = (warmup.min(self.len()), self.len());
        let steady = (warmup..total).flat_map(|vid| [forward(vid), backward(vid - warmup)]);
        (0..warmup).map(forward).chain(steady).chain((total - warmup..total).map(backward)).collect()
    }

    /// How many forwards of `chunk` have been released, at step `vid`, by a rank with `warmup` forwards ahead: those
    /// whose backward is done. A microbatch's input stands at `microbatch - released` in Megatron's queue of the chunk.
    ///
    /// In a forward-only run there is no warmup to wait for, and a forward releases itself: pass `None`.
    pub fn released(&self, vid: usize, chunk: Chunk, warmup: Option<usize>) -> usize {
        let (rows, direction) = match warmup {
            None => (vid, Direction::Forward),
            Some(warmup) => (vid.saturating_sub(warmup), Direction::Backward),
        };
        let rows = &self.entries[..rows.min(self.len())];
        rows.iter().filter(|(_, c)| self.directed(direction, *c) == chunk).count()
    }

    fn directed(&self, direction: Direction, chunk: Chunk) -> Chunk {
        match direction {
            Direction::Forward => chunk,
            Direction::Backward => Chunk(self.n_chunks - 1 - chunk.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_group_takes_what_is_left() {
        let table = ScheduleTable::new(5, 2, Groups::Uniform { size: 3 });
        let microbatches: Vec<u32> = table.entries().iter().map(|(microbatch, _)| microbatch.0).collect();
        assert_eq!(microbatches, [0, 1, 2, 0, 1, 2, 3, 4, 3, 4]);
        assert_eq!(table.get(Direction::Backward, 0), Some((Microbatch(0), Chunk(1))));
        assert_eq!(table.get(Direction::Forward, 10), None);
    }

    #[test]
    fn released_counts_follow_the_backwards_done() {
        let table = ScheduleTable::new(4, 2, Groups::Uniform { size: 2 });
        assert_eq!(table.released(3, Chunk(1), Some(4)), 0);
        assert_eq!(table.released(6, Chunk(1), Some(4)), 2);
        assert_eq!(table.released(6, Chunk(0), Some(4)), 0);
        assert_eq!(table.released(8, Chunk(0), Some(4)), 2);
        assert_eq!(table.released(3, Chunk(0), None), 2);
        assert_eq!(table.released(3, Chunk(1), None), 1);
    }
}
