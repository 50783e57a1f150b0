//! ZB-V: two chunks per rank in a V, and weight gradients put off (Qi et al. 2023, "Zero Bubble Pipeline Parallelism",
//! section 6), in the hand-made form for forwards and both backwards of equal cost, as torch has it.
//!
//! A microbatch turns round on the last rank, and its first backward runs on rank 0, where its forwards ended. So all ranks
//! run into the steady phase at the same time and keep the same number of activations: `2 pp` chunks', as rank 0 does with
//! 1F1B. With fewer than `2 pp - 1` microbatches it is that order without those that are not there.

use crate::config::ScheduleConfig;
use crate::ids::{Chunk, Rank};
use crate::schedules::row::Row;
use crate::work::Work;

const DOWN: Chunk = Chunk(0);
const UP: Chunk = Chunk(1);

pub(super) fn order(config: &ScheduleConfig, rank: Rank) -> Vec<Work> {
    let (before, from_here) = (rank.0, config.pp() - rank.0);
    // Turns that bring a microbatch through each chunk, once both chunks run backwards.
    let full = (2 * config.pp() - 1).max(config.microbatches());
    let ahead = 2 * from_here - 1 + before;
    let mut row = Row::new(config, rank);
    for _ in 0..2 * from_here - 1 {
        row.forward(DOWN);
    }
    for _ in 0..before {
        row.forward(UP);
        row.forward(DOWN);
    }
    for _ in 0..from_here {
        row.forward(UP);
        row.input(UP);
        row.weight(UP);
    }
    // The second chunk is `from_here - 1` forwards behind the first, and catches up at the end.
    for turn in 0..full - before - from_here {
        if ahead + turn < full {
            row.forward(DOWN);
        }
        row.input(DOWN);
        row.weight(DOWN);
        row.forward(UP);
        row.input(UP);
        row.weight(UP);
    }
    for _ in 0..before {
        row.input(DOWN);
        row.input(UP);
    }
    for _ in 0..from_here {
        row.input(DOWN);
        row.weight(DOWN);
    }
    row.weights_left(UP);
    row.weights_left(DOWN);
    row.finish().0
}
