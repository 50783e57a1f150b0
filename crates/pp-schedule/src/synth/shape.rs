//! A problem's shape in the search's own small words: stages, ranks, letters.
//!
//! Microbatches are alike, so each rank may take those of one stage in their order for every kind of work: the `n`-th
//! forward of a stage is microbatch `n`'s. A rank's row is then a word over few letters, a kind and a chunk each, and a
//! letter's count says which microbatch it is.

use super::Problem;

/// A kind of work of one of the rank's chunks: `kind * n_chunks + chunk`, kinds in the order forward, input, weight.
pub(super) type Letter = u8;

/// One word per rank.
pub(super) type Words = Vec<Vec<Letter>>;

pub(super) const FORWARD: usize = 0;
pub(super) const INPUT: usize = 1;
pub(super) const WEIGHT: usize = 2;

/// A time that is not known yet.
pub(super) const NEVER: u64 = u64::MAX;

/// What the search needs of a problem, as sizes and costs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) n_ranks: usize,
    pub(super) n_chunks: usize,
    pub(super) n_stages: usize,
    pub(super) m: usize,
    /// By kind.
    pub(super) cost: [u64; 3],
    pub(super) latency: u64,
    /// In half-activations; large when there is none.
    pub(super) limit: u64,
}

impl Shape {
    pub(super) fn new(problem: &Problem) -> Self {
        let n_ranks = problem.pp as usize;
        let n_chunks = problem.n_chunks as usize;
        let m = problem.microbatches as usize;
        Self {
            n_ranks,
            n_chunks,
            n_stages: n_ranks * n_chunks,
            m,
            cost: [problem.forward, problem.backward_input, problem.backward_weight],
            latency: problem.latency,
            // No order holds more than all activations of a rank.
            limit: problem.memory.unwrap_or(u64::MAX).min(2 * (n_chunks * m) as u64),
        }
    }

    /// The same with another number of microbatches.
    pub(super) fn with_microbatches(&self, m: usize) -> Self {
        Self { m, limit: self.limit.min(2 * (self.n_chunks * m) as u64), ..*self }
    }

    /// The same ranks farther apart: messages take at least so many percent of a forward. Time is counted ten times finer.
    pub(super) fn distant(&self, percent: u64) -> Self {
        let cost = self.cost.map(|cost| 10 * cost);
        Self { cost, latency: (10 * self.latency).max(self.cost[FORWARD] * percent / 10), ..*self }
    }

    #[inline]
    pub(super) fn n_letters(&self) -> usize {
        3 * self.n_chunks
    }

    /// The rank of a stage: there and, with two chunks, back.
    #[inline]
    pub(super) fn rank_of(&self, stage: usize) -> usize {
        if stage < self.n_ranks { stage } else { 2 * self.n_ranks - 1 - stage }
    }

    #[inline]
    pub(super) fn stage_of(&self, rank: usize, chunk: usize) -> usize {
        if chunk == 0 { rank } else { 2 * self.n_ranks - 1 - rank }
    }

    /// What a message between neighbour stages takes: nothing at the turn of the V.
    #[inline]
    pub(super) fn hop(&self, from: usize, to: usize) -> u64 {
        if self.rank_of(from) == self.rank_of(to) { 0 } else { self.latency }
    }

    #[inline]
    pub(super) fn kind(&self, letter: usize) -> usize {
        if self.n_chunks == 1 { letter } else { letter >> 1 }
    }

    #[inline]
    pub(super) fn chunk(&self, letter: usize) -> usize {
        if self.n_chunks == 1 { 0 } else { letter & 1 }
    }

    /// The work of a rank that has so many of each letter behind it.
    pub(super) fn work_left(&self, counts: &[u32; 6]) -> u64 {
        let left = |letter: usize| (self.m as u64 - u64::from(counts[letter])) * self.cost[self.kind(letter)];
        (0..self.n_letters()).map(left).sum()
    }

    /// Computations of one rank.
    pub(super) fn row_len(&self) -> usize {
        self.n_letters() * self.m
    }
}

/// Whether a word does things in their order and holds no more than the limit.
pub(super) fn fits(shape: &Shape, word: &[Letter]) -> bool {
    let mut counts = [0_u32; 6];
    let mut held = 0_u64;
    word.iter().all(|&letter| {
        let letter = letter as usize;
        counts[letter] += 1;
        if shape.kind(letter) == FORWARD {
            held += 2;
            return held <= shape.limit;
        }
        held = held.wrapping_sub(1);
        counts[letter] <= counts[letter - shape.n_chunks]
    })
}

/// The most half-activations that each rank holds.
pub(super) fn peaks(shape: &Shape, words: &Words) -> Vec<u64> {
    let peak = |word: &Vec<Letter>| {
        let mut held = 0_u64;
        let held_after = word.iter().map(|&letter| {
            held = if shape.kind(letter as usize) == FORWARD { held + 2 } else { held - 1 };
            held
        });
        held_after.max().unwrap_or(0)
    };
    words.iter().map(peak).collect()
}
