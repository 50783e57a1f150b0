//! DualPipeV: two chunks per rank in a V, where a forward and a backward of different chunks run as one overlapped pair
//! (DeepSeek's DualPipe, cut in half; torch has the same order).
//!
//! Weight gradients are put off only while filling and draining; in between, backwards are whole. It is made for at least
//! `2 pp` microbatches; with fewer it is the order of `2 pp` without those that are not there, and a pair whose other half is
//! missing runs alone.

use std::collections::VecDeque;

use crate::config::ScheduleConfig;
use crate::ids::{Chunk, Rank};
use crate::schedules::row::Row;
use crate::work::Work;

const DOWN: Chunk = Chunk(0);
const UP: Chunk = Chunk(1);

/// The row, and where its overlapped pairs start.
pub(super) fn order(config: &ScheduleConfig, rank: Rank) -> (Vec<Work>, Vec<u32>) {
    let (before, after) = (rank.0, config.pp() - 1 - rank.0);
    let full = config.microbatches().max(2 * config.pp());
    let mut row = Row::new(config, rank);
    for _ in 0..2 * after {
        row.forward(DOWN);
    }
    for _ in 0..=before {
        row.forward(DOWN);
        row.forward(UP);
    }
    for _ in 0..after {
        row.input(UP);
        row.weight(UP);
        row.forward(UP);
    }
    for turn in 0..full - 2 * config.pp() + before + 1 {
        if turn == 0 && after == 0 {
            // Apart, so that the last rank's first gradient is on its way sooner.
            row.forward(DOWN);
            row.backward(UP);
        } else {
            row.pair(DOWN, UP);
        }
        row.pair(UP, DOWN);
    }
    for _ in 0..after {
        row.backward(UP);
        row.pair(UP, DOWN);
    }
    drain(&mut row, before, after);
    row.finish()
}

/// The backwards that are left: whole ones for the first half, then weights are put off to the end.
fn drain(row: &mut Row, before: u32, after: u32) {
    let mut put_off = VecDeque::new();
    let left = (0..=before).flat_map(|_| [UP, DOWN]);
    for (index, chunk) in (0..).zip(left) {
        if index <= before {
            row.backward(chunk);
        } else {
            row.input(chunk);
            put_off.push_back(chunk);
        }
    }
    for _ in 0..after {
        if let Some(chunk) = put_off.pop_front() {
            row.weight(chunk);
        }
        row.input(DOWN);
        put_off.push_back(DOWN);
    }
    for chunk in put_off {
        row.weight(chunk);
    }
}
