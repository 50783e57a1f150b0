//! Interleaved zero bubble: ZB-H1 over the schedule table, where a rank's chunks take turns; torch's form.
//!
//! The microbatches are cut into as many even groups of at least `pp` as there can be. Each hop away from the last rank adds
//! one forward to the warmup, not two as with interleaved 1F1B: a gradient is back sooner, because weights wait.

use crate::config::ScheduleConfig;
use crate::ids::{Direction, Rank};
use crate::table::ScheduleTable;
use crate::work::{Work, WorkKind};

pub(super) fn order(config: &ScheduleConfig, rank: Rank) -> Vec<Work> {
    let (microbatches, groups, placement) = (config.microbatches(), config.groups(), config.placement());
    let table = ScheduleTable::new(microbatches, config.vp(), groups);
    let steps = |direction, kind| {
        table.rows(direction).map(move |(microbatch, chunk)| Work {
            kind,
            stage: placement.stage_of(rank, chunk),
            microbatch,
        })
    };
    let mut forwards = steps(Direction::Forward, WorkKind::Forward);
    let mut weights = steps(Direction::Backward, WorkKind::BackwardWeight);
    let warmup = (config.vp() - 1) * groups.largest(microbatches) + (config.pp() - 1 - rank.0);
    let mut order = Vec::with_capacity(3 * table.len());
    order.extend(forwards.by_ref().take(warmup as usize));
    for (turn, input) in (0..).zip(steps(Direction::Backward, WorkKind::BackwardInput)) {
        order.extend(forwards.next());
        order.push(input);
        if turn >= rank.0 {
            order.extend(weights.next());
        }
    }
    order.extend(weights);
    order
}
