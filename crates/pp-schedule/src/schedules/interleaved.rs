//! Interleaved 1F1B: 1F1B over the schedule table, where a rank's chunks take turns.

use crate::config::ScheduleConfig;
use crate::counts::{Counts, CountsInput};
use crate::ids::{Direction, Rank};
use crate::table::ScheduleTable;
use crate::work::{Work, WorkKind};

pub(super) fn order(config: &ScheduleConfig, rank: Rank) -> Vec<Work> {
    let (microbatches, groups, placement) = (config.microbatches(), config.groups(), config.placement());
    let table = ScheduleTable::new(microbatches, config.vp(), groups);
    let counts = Counts::new(CountsInput {
        pp: config.pp(),
        rank,
        vp: Some(config.vp()),
        microbatches,
        group_size: groups.largest(microbatches),
        forward_only: config.forward_only(),
    });
    let steps = |direction, kind| {
        table.rows(direction).map(move |(microbatch, chunk)| Work {
            kind,
            stage: placement.stage_of(rank, chunk),
            microbatch,
        })
    };
    let mut forwards = steps(Direction::Forward, WorkKind::Forward);
    let mut backwards = steps(Direction::Backward, WorkKind::Backward);
    let mut order = Vec::with_capacity(2 * table.len());
    order.extend(forwards.by_ref().take(counts.warmup as usize));
    for forward in forwards {
        order.push(forward);
        order.extend(backwards.next());
    }
    if !config.forward_only() {
        order.extend(backwards);
    }
    order
}
