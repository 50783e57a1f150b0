//! What steps took, stage by stage: kept by each rank as they happen, put together over ranks at the end, and held against
//! what the simulator foretells from it.

mod kept;
mod predicted;
mod slow;

use pp_schedule::{Placement, Rank, Stage, WorkKind};
use serde::Serialize;

pub(crate) use kept::KeptSteps;
pub use predicted::Predicted;
pub(crate) use slow::slow_stages;
pub use slow::{SLOW_FROM, SlowStage};

/// Kinds of computation, in the order of the figures here.
const KINDS: [WorkKind; 4] = [WorkKind::Forward, WorkKind::Backward, WorkKind::BackwardInput, WorkKind::BackwardWeight];

/// What a stage took. Each figure is the median over steps.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StageTimes {
    /// The stage.
    pub stage: u32,
    /// The rank that holds it.
    pub rank: u32,
    /// Milliseconds of a forward, mean over the microbatches of a step.
    pub forward_ms: Option<f64>,
    /// The same of a full backward, where there are such.
    pub backward_ms: Option<f64>,
    /// The same of a backward for the input.
    pub backward_input_ms: Option<f64>,
    /// The same of a backward for the weights.
    pub backward_weight_ms: Option<f64>,
    /// Milliseconds of a step in the stage's computations.
    pub busy_ms: f64,
    /// Milliseconds of a step in which its rank waited for the stage's messages, in and out.
    pub wait_ms: f64,
}

/// What the programs of the training steps took, over all ranks: from the first computation of any rank to the last, without
/// what follows them (the exchange of loss and norm, the optimizer). Figures are medians over steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Over how many steps: the last ones, at most [`Measured::MAX_STEPS`], and not the first of the run, which is slower.
    pub n_steps: usize,
    /// Milliseconds of a step's program.
    pub program_ms: f64,
    /// The share of all ranks' time in it in which they computed nothing.
    pub bubble: f64,
    /// The same as a share of the time of the rank that takes longest from its own first computation to its own last.
    pub longest_stage_bubble: f64,
    /// By stage.
    pub stages: Vec<StageTimes>,
}

impl Measured {
    /// The most steps that figures are over.
    pub const MAX_STEPS: usize = kept::MAX_STEPS;

    /// Puts together what all ranks have kept of the same steps.
    fn of(ranks: &[Vec<kept::Step>], placement: Placement) -> Self {
        let n_steps = ranks.iter().map(Vec::len).min().unwrap_or(0);
        let per_step = |of: &dyn Fn(usize) -> f64| median((0..n_steps).map(of).collect());
        let of_ranks = |step: usize, of: &dyn Fn(&kept::Step) -> f64, fold: fn(f64, f64) -> f64| {
            ranks.iter().map(|steps| of(&steps[step])).reduce(fold).unwrap_or(0.0)
        };
        let program =
            |step: usize| of_ranks(step, &|step| step.last, f64::max) - of_ranks(step, &|step| step.first, f64::min);
        let longest = |step: usize| of_ranks(step, &|step| step.last - step.first, f64::max);
        let busy = |step: usize| of_ranks(step, &kept::Step::busy, |a, b| a + b);
        let idle_share = |step: usize, time: f64| {
            let all = time * ranks.len() as f64;
            if all > 0.0 { 1.0 - busy(step) / all } else { 0.0 }
        };
        let stages = (0..placement.n_stages()).map(Stage).map(|stage| {
            let (rank, chunk) = (placement.rank_of(stage), placement.chunk_of(stage).idx());
            stage_times(stage, rank, ranks[rank.idx()].iter().map(|step| &step.chunks[chunk]))
        });
        Self {
            n_steps,
            program_ms: 1e3 * per_step(&program),
            bubble: per_step(&|step| idle_share(step, program(step))),
            longest_stage_bubble: per_step(&|step| idle_share(step, longest(step))),
            stages: stages.collect(),
        }
    }
}

fn stage_times<'a>(stage: Stage, rank: Rank, steps: impl Iterator<Item = &'a kept::ChunkTimes> + Clone) -> StageTimes {
    let of_kind = |kind: usize| {
        let means: Vec<f64> = steps.clone().filter_map(|step| step.mean(kind)).collect();
        (!means.is_empty()).then(|| 1e3 * median(means))
    };
    StageTimes {
        stage: stage.0,
        rank: rank.0,
        forward_ms: of_kind(0),
        backward_ms: of_kind(1),
        backward_input_ms: of_kind(2),
        backward_weight_ms: of_kind(3),
        busy_ms: 1e3 * median(steps.clone().map(kept::ChunkTimes::busy).collect()),
        wait_ms: 1e3 * median(steps.map(|step| step.wait).collect()),
    }
}

/// Of an even number the mean of the middle two; 0 of none.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        len if len % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

#[cfg(test)]
mod tests;
