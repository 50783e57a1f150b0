//! No pipelining: each microbatch runs forward through every chunk of the one rank, then back.

use crate::config::ScheduleConfig;
use crate::ids::{Microbatch, Stage};
use crate::work::Work;

pub(super) fn order(config: &ScheduleConfig) -> Vec<Work> {
    let n_stages = config.placement().n_stages();
    let mut order = Vec::with_capacity(2 * (n_stages * config.microbatches()) as usize);
    for microbatch in (0..config.microbatches()).map(Microbatch) {
        order.extend((0..n_stages).map(|stage| Work::forward(Stage(stage), microbatch)));
        if !config.forward_only() {
            order.extend((0..n_stages).rev().map(|stage| Work::backward(Stage(stage), microbatch)));
        }
    }
    order
}
