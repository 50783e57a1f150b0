//! What is asked of the planner.

use super::error::PlanError;
use super::model::{Model, Recompute};
use super::stages::{Machine, Stages};
use crate::config::{ScheduleConfig, ScheduleKind};

/// A number of pipeline ranks to try, and what comes with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    /// Pipeline ranks.
    pub pp: u32,
    /// Data-parallel replicas.
    pub dp: u32,
    /// Microbatches per step and replica, or why the batch does not divide.
    pub microbatches: Result<u32, String>,
}

/// Sequences of a step, cut into microbatches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Batch {
    /// So many microbatches per step and replica.
    Microbatches(u32),
    /// So many sequences over all replicas, so many of them in a microbatch.
    Global {
        /// Sequences per step.
        global: u32,
        /// Sequences per microbatch.
        micro: u32,
    },
}

impl Batch {
    /// Microbatches of each of `dp` replicas.
    fn microbatches(self, dp: u32) -> Result<u32, String> {
        match self {
            Self::Microbatches(m) => Ok(m),
            Self::Global { global, micro } => {
                let per_round = u64::from(dp) * u64::from(micro);
                let (global, below) = (u64::from(global), u64::from(global) / per_round.max(1) * per_round);
                if per_round > 0 && global > 0 && global == below {
                    return Ok((global / per_round) as u32);
                }
                let nearest =
                    if below == 0 || per_round - (global - below) < global - below { below + per_round } else { below };
                Err(format!(
                    "--global-batch-size {global} does not divide over {dp} data-parallel replicas x --micro-batch-size \
                     {micro}; nearest that works: --global-batch-size {nearest}"
                ))
            }
        }
    }
}

impl Way {
    /// So many pipeline ranks and replicas.
    pub fn new(pp: u32, dp: u32, batch: Batch) -> Self {
        Self { pp, dp, microbatches: batch.microbatches(dp) }
    }

    /// Every number of pipeline ranks that divides the devices; what is left is data parallel.
    pub fn all(n_devices: u32, batch: Batch) -> Vec<Self> {
        let divisors = (1..=n_devices).filter(|pp| n_devices.is_multiple_of(*pp));
        divisors.map(|pp| Self::new(pp, n_devices / pp, batch)).collect()
    }
}

/// Which group sizes are tried, of those that the rule admits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupSizes {
    /// All of them.
    All,
    /// At most so many: the smallest, the largest, and between them in about equal ratios.
    Sample(usize),
}

impl GroupSizes {
    /// Those to try of the valid ones, which ascend.
    pub(super) fn of(self, valid: &[u32]) -> Vec<u32> {
        let Self::Sample(most) = self else { return valid.to_vec() };
        let (Some(&first), Some(&last)) = (valid.first(), valid.last()) else { return Vec::new() };
        if valid.len() <= most {
            return valid.to_vec();
        }
        let steps = most.max(2) - 1;
        let ratio = f64::from(last) / f64::from(first);
        let nearest = |wanted: f64| {
            let at = valid.partition_point(|size| f64::from(*size) < wanted).min(valid.len() - 1);
            valid[at]
        };
        let mut tried: Vec<u32> =
            (0..steps).map(|step| nearest(f64::from(first) * ratio.powf(step as f64 / steps as f64))).collect();
        tried.push(last);
        tried.dedup();
        tried
    }
}

/// What to plan for.
#[derive(Clone, Debug)]
pub struct Request {
    /// The model.
    pub model: Model,
    /// Ranks to try.
    pub ways: Vec<Way>,
    /// Memory and links.
    pub machine: Machine,
    /// Schedules to try.
    pub kinds: Vec<ScheduleKind>,
    /// Chunks per rank to try; all that the layers can be cut for without.
    pub vps: Option<Vec<u32>>,
    /// Group sizes to try.
    pub groups: GroupSizes,
    /// Ways to recompute to try; those that the model does not know are left out.
    pub recompute: Vec<Recompute>,
    /// How many of the best families have to be exact. What cannot be among them need not be simulated.
    pub top: usize,
    /// How many of the best are played out as programs, where messages stand in queues, and ranked by that; they stay
    /// before the others.
    pub play: usize,
}

impl Request {
    /// Everything at its default: all schedules, chunks and ways to recompute, 16 group sizes, the ten best.
    pub fn new(model: Model, ways: Vec<Way>, machine: Machine) -> Self {
        Self {
            model,
            ways,
            machine,
            kinds: ScheduleKind::ALL.to_vec(),
            vps: None,
            groups: GroupSizes::Sample(16),
            recompute: Recompute::ALL.to_vec(),
            top: 10,
            play: 0,
        }
    }

    /// Whether all ticks and bytes of a step fit into 64 bits with room to spare.
    pub(super) fn check_costs(&self, stages: &Stages, config: &ScheduleConfig, dp: u32) -> Result<(), PlanError> {
        const MOST: u128 = 1 << 62;
        let m = u128::from(config.microbatches());
        let gradients = stages.loads.iter().map(|load| load.weights.gradient).fold(0, u64::saturating_add);
        let reduce = u128::from(self.machine.reduce(gradients, dp));
        let ticks = stages.costs().longest(config.into()) + reduce;
        let mut bytes = 0_u128;
        for load in &stages.loads {
            bytes += m * (u128::from(load.bytes.activation) + u128::from(load.bytes.deferred));
            bytes += u128::from(load.weights.replicated) + u128::from(load.weights.sharded) + u128::from(load.working);
            bytes += m * 8 * u128::from(self.model.message);
        }
        match (ticks <= MOST, bytes <= MOST) {
            (true, true) => Ok(()),
            (false, _) => Err(PlanError::Costs { what: "nanoseconds" }),
            (_, false) => Err(PlanError::Costs { what: "bytes" }),
        }
    }
}
