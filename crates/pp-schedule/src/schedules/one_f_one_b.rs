//! 1F1B: fill the pipeline, then one forward and one backward in turn, then drain it, oldest first.

use crate::config::ScheduleConfig;
use crate::counts::{Counts, CountsInput};
use crate::ids::{Microbatch, Rank, Stage};
use crate::work::Work;

pub(super) fn order(config: &ScheduleConfig, rank: Rank) -> Vec<Work> {
    let microbatches = config.microbatches();
    let counts = Counts::new(CountsInput {
        pp: config.pp(),
        rank,
        vp: None,
        microbatches,
        group_size: config.pp(),
        forward_only: config.forward_only(),
    });
    let stage = Stage(rank.0);
    let forward = |microbatch| Work::forward(stage, Microbatch(microbatch));
    let backward = |microbatch| Work::backward(stage, Microbatch(microbatch));
    let mut order = Vec::with_capacity(2 * microbatches as usize);
    order.extend((0..counts.warmup).map(forward));
    for steady in 0..counts.remaining {
        order.push(forward(counts.warmup + steady));
        order.push(backward(steady));
    }
    if !config.forward_only() {
        order.extend((counts.remaining..microbatches).map(backward));
    }
    order
}
