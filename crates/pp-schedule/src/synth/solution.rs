//! What a search has found.

use super::climb::Found;
use super::problem::Problem;
use super::shape::{FORWARD, INPUT, Shape, peaks};
use crate::ids::{Chunk, Microbatch, Rank};
use crate::placement::Placement;
use crate::work::{Work, WorkKind};

/// An order and what is known of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Solution {
    /// Which rank holds which stage.
    pub placement: Placement,
    /// Microbatches.
    pub microbatches: u32,
    /// What each rank computes, in turn.
    pub rows: Vec<Vec<Work>>,
    /// When the last computation ends, in ticks.
    pub makespan: u64,
    /// The longest that a rank takes from its own first computation to its own last.
    pub longest_stage: u64,
    /// No order within the limit is shorter.
    pub lower_bound: u64,
    /// The most half-activations that each rank holds.
    pub peak: Vec<u64>,
    /// The work that was done.
    pub tried: Tried,
}

/// What a search has tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Tried {
    /// Policies played out.
    pub plays: u64,
    /// Moves.
    pub moves: u64,
}

impl Solution {
    pub(super) fn new(problem: &Problem, shape: &Shape, found: &Found, lower_bound: u64, tried: Tried) -> Self {
        let placement = problem.placement();
        let row = |(rank, word): (usize, &Vec<u8>)| {
            let mut counts = [0; 6];
            let work = |&letter: &u8| {
                let letter = usize::from(letter);
                let kind = match shape.kind(letter) {
                    FORWARD => WorkKind::Forward,
                    INPUT => WorkKind::BackwardInput,
                    _ => WorkKind::BackwardWeight,
                };
                let stage = placement.stage_of(Rank(rank as u32), Chunk(shape.chunk(letter) as u32));
                let microbatch = Microbatch(counts[letter]);
                counts[letter] += 1;
                Work { kind, stage, microbatch }
            };
            word.iter().map(work).collect()
        };
        Self {
            placement,
            microbatches: problem.microbatches,
            rows: found.words.iter().enumerate().map(row).collect(),
            makespan: found.length,
            longest_stage: found.stage,
            lower_bound,
            peak: peaks(shape, &found.words),
            tried,
        }
    }
}
