//! Looped BFS: every forward, chunk by chunk, then every backward the other way round.
//!
//! GPipe for several chunks per rank (Lamy-Poirier 2022, "Breadth-First Pipeline Parallelism"), as torch has it.

use crate::config::ScheduleConfig;
use crate::ids::{Microbatch, Rank};
use crate::work::Work;

pub(super) fn order(config: &ScheduleConfig, rank: Rank) -> Vec<Work> {
    let stages = config.placement().stages_of(rank);
    let microbatches = || (0..config.microbatches()).map(Microbatch);
    let forwards: Vec<Work> =
        stages.flat_map(|stage| microbatches().map(move |microbatch| Work::forward(stage, microbatch))).collect();
    let backwards = forwards.iter().rev().map(|forward| Work::backward(forward.stage, forward.microbatch));
    let backwards: Vec<Work> = backwards.collect();
    [forwards, backwards].concat()
}
