//! GPipe: every forward, then every backward.

use crate::config::{GPipeBackward, ScheduleConfig};
use crate::ids::{Microbatch, Rank, Stage};
use crate::work::Work;

pub(super) fn order(config: &ScheduleConfig, rank: Rank) -> Vec<Work> {
    let stage = Stage(rank.0);
    let microbatches = || (0..config.microbatches()).map(Microbatch);
    let mut order = Vec::with_capacity(2 * config.microbatches() as usize);
    order.extend(microbatches().map(|microbatch| Work::forward(stage, microbatch)));
    if !config.forward_only() {
        let backward = |microbatch| Work::backward(stage, microbatch);
        match config.gpipe_backward() {
            GPipeBackward::Reverse => order.extend(microbatches().rev().map(backward)),
            GPipeBackward::Ascending => order.extend(microbatches().map(backward)),
        }
    }
    order
}
