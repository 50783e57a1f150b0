//! What is tried: every schedule, number of chunks, group size and way to recompute that the rules admit.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::bound::least_step;
use super::error::{PlanError, Rule};
use super::model::Recompute;
use super::request::{GroupSizes, Request, Way};
use super::stages::Stages;
use crate::config::{ConfigError, ScheduleConfig, ScheduleKind, ScheduleSpec};
use crate::groups::group_rule_holds;
use crate::layout::LayoutError;
use crate::placement::Placement;

/// A schedule that may run, over a cut of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// What to ask for to get it.
    pub spec: ScheduleSpec,
    /// The schedule.
    pub config: ScheduleConfig,
    /// Data-parallel replicas.
    pub n_replicas: u32,
    /// What is computed again.
    pub recompute: Recompute,
    /// The model's stages.
    pub stages: Arc<Stages>,
    /// Ticks that its step takes at least.
    pub least_step: u64,
    /// Its place among the schedules of the request.
    pub(super) kind_at: usize,
}

/// What candidates share that differ in their group size alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Family {
    /// Pipeline ranks.
    pub pp: u32,
    /// Place of the schedule among those of the request.
    pub(super) kind_at: usize,
    /// Chunks per rank.
    pub vp: u32,
    /// What is computed again.
    pub recompute: Recompute,
}

impl Candidate {
    /// The candidates it belongs to.
    pub fn family(&self) -> Family {
        let (pp, vp) = (self.spec.pp, self.spec.vp);
        Family { pp, kind_at: self.kind_at, vp, recompute: self.recompute }
    }
}

/// What was not tried, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Pipeline ranks.
    pub pp: u32,
    /// The schedule, where it is the schedule's rule.
    pub kind: Option<ScheduleKind>,
    /// Chunks per rank, where the rule depends on them.
    pub vp: Option<u32>,
    /// The rule.
    pub rule: Rule,
}

/// Everything to try, and everything that cannot be.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    pub(super) all: Vec<Candidate>,
    pub(super) refused: Vec<Refused>,
    /// The most group sizes that a rule admits, and how many of those are tried, where these are not all.
    pub(super) sampled: Option<(usize, usize)>,
}

type Cuts = HashMap<(Placement, Recompute), Result<Arc<Stages>, LayoutError>>;

/// Makes the candidates of a request.
///
/// # Errors
/// [`PlanError::Costs`] when a step could last longer than can be reckoned with.
pub(super) fn candidates(request: &Request) -> Result<Candidates, PlanError> {
    let mut made = Candidates::default();
    for way in &request.ways {
        let mut cuts = Cuts::new();
        match way.microbatches {
            Ok(m) => of_way(request, way, m, &mut cuts, &mut made)?,
            Err(ref rule) => {
                made.refused.push(Refused { pp: way.pp, kind: None, vp: None, rule: Rule::Batch(rule.clone()) });
            }
        }
    }
    Ok(made)
}

fn of_way(request: &Request, way: &Way, m: u32, cuts: &mut Cuts, made: &mut Candidates) -> Result<(), PlanError> {
    let n_layers = request.model.layers.len();
    // On one rank chunks change nothing.
    let most = if way.pp == 1 { 1 } else { (n_layers as u32 / way.pp.max(1)).max(1) };
    let vps = request.vps.clone().unwrap_or_else(|| (1..=most).collect());
    let mut seen = HashSet::new();
    for vp in vps {
        for (kind_at, &kind) in request.kinds.iter().enumerate() {
            if vp == 1 && same_over_one_chunk(kind).is_some_and(|other| request.kinds.contains(&other)) {
                continue;
            }
            let spec = ScheduleSpec { schedule: Some(kind), ..ScheduleSpec::new(way.pp, vp, m) };
            let specs = with_groups(&spec, request.groups, &mut made.sampled);
            for (mut spec, config) in specs {
                let config = match config {
                    Ok(config) => config,
                    Err(error) => {
                        let (kind, vp) = (Some(kind), Some(vp));
                        made.refused.push(Refused { pp: way.pp, kind, vp, rule: error.into() });
                        continue;
                    }
                };
                // Where a schedule has its own number of chunks, that is found for two: its own and one.
                spec.vp = config.vp();
                if seen.insert(config) {
                    add(request, way, (spec, config, kind_at), cuts, made)?;
                }
            }
        }
    }
    Ok(())
}

/// The schedule for one chunk whose order this one has when there is one.
const fn same_over_one_chunk(kind: ScheduleKind) -> Option<ScheduleKind> {
    match kind {
        ScheduleKind::LoopedBfs => Some(ScheduleKind::GPipe),
        ScheduleKind::InterleavedZb => Some(ScheduleKind::ZbH1),
        // Interleaved over one chunk fills its pipeline with twice as many microbatches as 1F1B.
        _ => None,
    }
}

/// A candidate per way to recompute.
fn add(
    request: &Request,
    way: &Way,
    (spec, config, kind_at): (ScheduleSpec, ScheduleConfig, usize),
    cuts: &mut Cuts,
    made: &mut Candidates,
) -> Result<(), PlanError> {
    let placement = config.placement();
    for &recompute in request.recompute.iter().filter(|recompute| request.model.knows(**recompute)) {
        let cut = || Stages::balanced(&request.model, recompute, placement, &request.machine).map(Arc::new);
        let stages = match cuts.entry((placement, recompute)).or_insert_with(cut) {
            Ok(stages) => Arc::clone(stages),
            Err(error) => {
                // The same for every schedule of that many stages.
                let (pp, vp) = (way.pp, Some(config.vp()));
                let refused = Refused { pp, kind: None, vp, rule: error.clone().into() };
                if !made.refused.contains(&refused) {
                    made.refused.push(refused);
                }
                continue;
            }
        };
        request.check_costs(&stages, &config, way.dp)?;
        let least_step = least_step(&config, &stages, &request.machine, way.dp);
        let spec = spec.clone();
        made.all.push(Candidate { spec, config, n_replicas: way.dp, recompute, stages, least_step, kind_at });
    }
    Ok(())
}

type Checked = (ScheduleSpec, Result<ScheduleConfig, ConfigError>);

/// A spec with every group size to try, if its schedule has groups and takes the sizes; else as it is.
fn with_groups(spec: &ScheduleSpec, sizes: GroupSizes, sampled: &mut Option<(usize, usize)>) -> Vec<Checked> {
    let (pp, m) = (spec.pp, spec.microbatches);
    let of = |spec: ScheduleSpec| {
        let config = ScheduleConfig::new(&spec);
        (spec, config)
    };
    let grouped = |size| of(ScheduleSpec { group_size: Some(size), ..spec.clone() });
    // Another group size helps neither those without groups nor those too large for any.
    let has_no_groups = matches!(
        grouped(pp).1,
        Err(ConfigError::NotForThisSchedule { flag: "--group-size", .. } | ConfigError::TooLarge { .. })
    );
    if has_no_groups {
        let plain = of(spec.clone());
        let needs_bubbles =
            matches!(plain.1, Err(ConfigError::TooFewForDualPipeV { .. } | ConfigError::UnevenRounds { .. }));
        return vec![if needs_bubbles { of(ScheduleSpec { allow_bubbles: true, ..spec.clone() }) } else { plain }];
    }
    let valid: Vec<u32> = (pp..=m).filter(|&size| group_rule_holds(pp, size, m)).collect();
    if valid.is_empty() {
        // Fewer microbatches than ranks: only uneven groups are left.
        let bubbles = of(ScheduleSpec { allow_bubbles: true, ..spec.clone() });
        return if bubbles.1.is_ok() { vec![bubbles] } else { vec![of(spec.clone())] };
    }
    let tried = sizes.of(&valid);
    if tried.len() < valid.len() && sampled.is_none_or(|(most, _)| most < valid.len()) {
        *sampled = Some((valid.len(), tried.len()));
    }
    tried.into_iter().map(grouped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::Order;

    #[test]
    fn what_is_left_out_is_the_same() {
        for kind in ScheduleKind::ALL {
            let Some(other) = same_over_one_chunk(kind) else { continue };
            for (pp, m) in [(1, 1), (2, 1), (2, 5), (3, 3), (4, 9), (5, 7)] {
                let order = |kind| {
                    let spec =
                        ScheduleSpec { schedule: Some(kind), allow_bubbles: true, ..ScheduleSpec::new(pp, 1, m) };
                    Order::generate(&ScheduleConfig::new(&spec).expect("a schedule"))
                };
                assert_eq!(order(kind).rows(), order(other).rows(), "{kind} {other} pp {pp} m {m}");
            }
        }
    }
}
