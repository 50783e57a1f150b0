//! V-Half and V-Min: the V's two chunks in half, or a third, of 1F1B's memory (Qi et al. 2024, "Pipeline Parallelism with
//! Controllable Memory").
//!
//! No rule gives these orders for every size; they are searched for at unit costs, all ranks together. The search is
//! deterministic, so every rank that makes it for itself finds the same.

use crate::config::{ScheduleConfig, ScheduleKind};
use crate::ids::Rank;
use crate::synth::{Budget, Problem, limits, search_within};
use crate::work::Work;

pub(super) fn order(config: &ScheduleConfig, rank: Rank) -> Vec<Work> {
    orders(config).swap_remove(rank.idx())
}

/// Policies alone come within a unit or two of what climbs find, in a twentieth of the time.
pub(super) fn orders(config: &ScheduleConfig) -> Vec<Vec<Work>> {
    let limit = if config.kind() == ScheduleKind::VMin { limits::v_min } else { limits::v_half };
    let problem = Problem { memory: Some(limit(config.pp())), ..Problem::unit(config.pp(), 2, config.microbatches()) };
    // A configuration is within what a search takes, and a named limit is enough for an order.
    search_within(&problem, Budget::QUICK).map(|solution| solution.rows).unwrap_or_else(|error| unreachable!("{error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ScheduleSpec;

    #[test]
    fn ranks_find_the_same() {
        let spec = ScheduleSpec { schedule: Some(ScheduleKind::VMin), ..ScheduleSpec::new(4, 2, 6) };
        let config = ScheduleConfig::new(&spec).expect("valid");
        let all = orders(&config);
        assert_eq!((0..4).map(|rank| order(&config, Rank(rank))).collect::<Vec<_>>(), all);
    }
}
