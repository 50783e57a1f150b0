//! ZB-H1: 1F1B whose backwards for the weights wait until the rank would idle (Qi et al. 2023, "Zero Bubble Pipeline
//! Parallelism").
//!
//! Rank `r` runs `r + 1` backwards for the input before its first for the weights, so that every rank keeps as many
//! microbatches as rank 0 does with 1F1B, and puts off as many weight gradients as it has idle time left at the end.

use crate::config::ScheduleConfig;
use crate::ids::{Chunk, Rank};
use crate::schedules::row::Row;
use crate::work::Work;

const ONLY: Chunk = Chunk(0);

pub(super) fn order(config: &ScheduleConfig, rank: Rank) -> Vec<Work> {
    let microbatches = config.microbatches();
    let warmup = (config.pp() - 1 - rank.0).min(microbatches);
    let mut row = Row::new(config, rank);
    for _ in 0..warmup {
        row.forward(ONLY);
    }
    for pair in 0..microbatches - warmup {
        row.forward(ONLY);
        row.input(ONLY);
        if pair >= rank.0 {
            row.weight(ONLY);
        }
    }
    for _ in 0..warmup {
        row.input(ONLY);
        row.weight(ONLY);
    }
    row.weights_left(ONLY);
    row.finish().0
}
