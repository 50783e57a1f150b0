//! Figures in closed form: what a schedule costs in bubble and memory, without building it.

use crate::config::{ScheduleConfig, ScheduleKind};
use crate::counts::{Counts, CountsInput};
use crate::groups::{Groups, group_rule_holds};
use crate::ids::Rank;

/// The formula of [`ideal_bubble`], for people.
pub const BUBBLE_FORMULA: &str = "(pp - 1) / (vp * m + pp - 1)";

/// The share of a step's time that each rank idles, when all stages cost the same and communication is free:
/// `(pp - 1) / (vp * m + pp - 1)` (Narayanan et al. 2021, as a share of the whole step).
///
/// `None` where no closed form is known: interleaved groups that do not fulfil the schedule's rule
/// (`--allow-bubbles`).
pub fn ideal_bubble(config: &ScheduleConfig) -> Option<f64> {
    let (pp, m) = (config.pp(), config.microbatches());
    let regular = match (config.kind(), config.groups()) {
        (ScheduleKind::Interleaved, Groups::Even { count }) => {
            m.is_multiple_of(count) && group_rule_holds(pp, m / count, m)
        }
        _ => true,
    };
    let fill = f64::from(pp - 1);
    regular.then(|| fill / (f64::from(config.vp()) * f64::from(m) + fill))
}

/// How a rank's work falls into phases, in virtual microbatches.
pub fn counts(config: &ScheduleConfig, rank: Rank) -> Counts {
    let interleaved = config.kind() == ScheduleKind::Interleaved;
    Counts::new(CountsInput {
        pp: config.pp(),
        rank,
        vp: (interleaved || config.vp() > 1).then(|| config.vp()),
        microbatches: config.microbatches(),
        group_size: config.groups().largest(config.microbatches()),
        forward_only: config.forward_only(),
    })
}

/// The most activations that a rank keeps for their backward at any one time, in microbatches of one chunk.
pub fn peak_in_flight(config: &ScheduleConfig, rank: Rank) -> u32 {
    let Counts { total, warmup, .. } = counts(config, rank);
    match config.kind() {
        _ if config.forward_only() => 0,
        ScheduleKind::NoPipelining => config.vp(),
        ScheduleKind::GPipe => config.microbatches(),
        ScheduleKind::OneFOneB | ScheduleKind::Interleaved => total.min(warmup + 1),
    }
}
