//! A rank's row under construction, for orders that say what runs next but not on which microbatch: that is the stage's
//! first that has not had it.

use crate::config::ScheduleConfig;
use crate::ids::{Chunk, Microbatch, Rank, Stage};
use crate::work::{Work, WorkKind};

pub(super) struct Row {
    microbatches: u32,
    stages: Vec<Stage>,
    /// By chunk: microbatches that have had their forward, their backward for the input, and that for the weights.
    had: Vec<[u32; 3]>,
    works: Vec<Work>,
    pairs: Vec<u32>,
}

impl Row {
    pub(super) fn new(config: &ScheduleConfig, rank: Rank) -> Self {
        let stages: Vec<Stage> = config.placement().stages_of(rank).collect();
        let had = vec![[0; 3]; stages.len()];
        let works = Vec::with_capacity(3 * stages.len() * config.microbatches() as usize);
        Self { microbatches: config.microbatches(), stages, had, works, pairs: Vec::new() }
    }

    pub(super) fn forward(&mut self, chunk: Chunk) {
        self.push(WorkKind::Forward, chunk);
    }

    pub(super) fn backward(&mut self, chunk: Chunk) {
        self.push(WorkKind::Backward, chunk);
    }

    pub(super) fn input(&mut self, chunk: Chunk) {
        self.push(WorkKind::BackwardInput, chunk);
    }

    pub(super) fn weight(&mut self, chunk: Chunk) {
        self.push(WorkKind::BackwardWeight, chunk);
    }

    /// A forward of one chunk that overlaps with the backward of another.
    pub(super) fn pair(&mut self, forward: Chunk, backward: Chunk) {
        let start = self.works.len();
        self.forward(forward);
        self.backward(backward);
        if self.works.len() == start + 2 {
            self.pairs.push(start as u32);
        }
    }

    /// The weight gradients of a chunk that were put off until now.
    pub(super) fn weights_left(&mut self, chunk: Chunk) {
        while self.had[chunk.idx()][2] < self.had[chunk.idx()][1] {
            self.weight(chunk);
        }
    }

    /// Steps on a microbatch that the step does not have are counted, but not written: an order of a full pipeline stays
    /// one when microbatches are left out of it, since only computations of the same microbatch wait for each other.
    fn push(&mut self, kind: WorkKind, chunk: Chunk) {
        let had = &mut self.had[chunk.idx()];
        let microbatch = match kind {
            WorkKind::Forward => had[0],
            WorkKind::Backward | WorkKind::BackwardInput => had[1],
            WorkKind::BackwardWeight => had[2],
        };
        match kind {
            WorkKind::Forward => had[0] += 1,
            WorkKind::BackwardInput => had[1] += 1,
            WorkKind::BackwardWeight => had[2] += 1,
            WorkKind::Backward => {
                had[1] += 1;
                had[2] += 1;
            }
        }
        if microbatch < self.microbatches {
            self.works.push(Work { kind, stage: self.stages[chunk.idx()], microbatch: Microbatch(microbatch) });
        }
    }

    /// The row, and where its overlapped pairs start.
    pub(super) fn finish(self) -> (Vec<Work>, Vec<u32>) {
        (self.works, self.pairs)
    }
}
