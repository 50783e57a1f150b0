//! ZB-H2: ZB-H1 with enough forwards ahead that no rank waits between its first computation and its last (Qi et al. 2023,
//! "Zero Bubble Pipeline Parallelism").
//!
//! The forwards ahead fill the time until the first gradient is back; the weight gradients put off fill the time that a
//! rank started later than rank 0. Each rank keeps up to `2 pp - 1` microbatches.

use crate::config::ScheduleConfig;
use crate::ids::{Chunk, Rank};
use crate::schedules::row::Row;
use crate::work::Work;

const ONLY: Chunk = Chunk(0);

pub(super) fn order(config: &ScheduleConfig, rank: Rank) -> Vec<Work> {
    let microbatches = config.microbatches();
    let warmup = (2 * (config.pp() - rank.0) - 1).min(microbatches);
    let steady = microbatches - warmup;
    let mut row = Row::new(config, rank);
    for _ in 0..warmup {
        row.forward(ONLY);
    }
    for turn in 0..steady {
        row.input(ONLY);
        if turn >= 2 * rank.0 {
            row.weight(ONLY);
        }
        row.forward(ONLY);
    }
    for _ in 0..warmup {
        row.input(ONLY);
        row.weight(ONLY);
    }
    row.weights_left(ONLY);
    row.finish().0
}
