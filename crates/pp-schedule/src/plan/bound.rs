//! A time below which no order of a schedule can come, known before the order is made.

use super::stages::{Machine, Stages};
use crate::config::{ScheduleConfig, ScheduleKind};
use crate::ids::{Rank, Stage};

/// Ticks that a step of this schedule takes at least, whatever the turn of its computations.
///
/// No rank starts before a microbatch has come through the stages before its first one, and then it has all its own
/// work to do. Where backwards are whole, its last computation is one, and its gradient has to go back through the
/// stages before; where weights come apart, that holds of the forwards and the backwards for the input alone. And one
/// microbatch has to go through all stages and back.
pub(super) fn least_step(config: &ScheduleConfig, stages: &Stages, machine: &Machine, n_replicas: u32) -> u64 {
    let placement = config.placement();
    let m = u64::from(config.microbatches());
    let whole = backwards_are_whole(config.kind());
    let n_stages = placement.n_stages();
    // By stage: how long a microbatch takes through the stages before it, and its gradient back.
    let (mut there, mut back) = (vec![0_u64], vec![0_u64]);
    for stage in 0..n_stages {
        let costs = stages.loads[stage as usize].costs;
        let next = Stage(stage + 1);
        let leaves = next.0 < n_stages && placement.rank_of(next) != placement.rank_of(Stage(stage));
        let delay = if leaves { stages.link.delay() } else { 0 };
        there.push(there[stage as usize] + costs.forward + delay);
        let backward = if whole { costs.backward } else { costs.backward_input };
        back.push(back[stage as usize] + backward + delay);
    }
    let mut least = there[n_stages as usize] + back[n_stages as usize];
    for rank in (0..placement.n_ranks()).map(Rank) {
        let Some(first) = placement.stages_of(rank).min() else { continue };
        let (mut work, mut before_gradient, mut gradients) = (0, 0, 0);
        for stage in placement.stages_of(rank) {
            let load = &stages.loads[stage.idx()];
            let costs = load.costs;
            work += m * costs.microbatch();
            before_gradient += m * (costs.forward + if whole { costs.backward } else { costs.backward_input });
            gradients += load.weights.gradient;
        }
        let start = there[first.idx()];
        let reduce = machine.reduce(gradients, n_replicas);
        least = least.max(start + work + reduce).max(start + before_gradient + back[first.idx()]);
    }
    least
}

/// Whether no order of this kind takes backwards apart. Of a kind not known here that is not said, which is always safe.
const fn backwards_are_whole(kind: ScheduleKind) -> bool {
    matches!(
        kind,
        ScheduleKind::NoPipelining
            | ScheduleKind::GPipe
            | ScheduleKind::OneFOneB
            | ScheduleKind::Interleaved
            | ScheduleKind::LoopedBfs
    )
}
