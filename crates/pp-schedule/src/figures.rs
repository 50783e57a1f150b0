//! Figures in closed form: what a schedule costs in bubble and memory, without building it.

use crate::config::{ScheduleConfig, ScheduleKind};
use crate::counts::{Counts, CountsInput};
use crate::groups::{Groups, group_rule_holds};
use crate::ids::Rank;
use crate::placement::Shape;
use crate::schedules::{all_orders, rank_order};
use crate::simulate::StageCosts;
use crate::work::{Work, WorkKind};

/// The formula of [`ideal_bubble`] for schedules with whole backwards over a loop, for people.
const BUBBLE_FORMULA: &str = "(pp - 1) / (vp * m + pp - 1)";

/// The formula of [`ideal_bubble`] for the zero-bubble schedules, for people.
const ZERO_BUBBLE_FORMULA: &str = "(pp - 1) / (3 * vp * m + pp - 1)";

/// The formula of [`closed_form`] for ZB-H1 under uneven costs, for people.
const ZB_H1_FORMULA: &str = "x / (m (F + I + W) + x), x = (pp - 1) (F + I - W)";

/// The formula of [`ideal_bubble`] for forwards alone over a V, for people.
const V_FORWARD_FORMULA: &str = "(pp - 1) / (m + pp - 1)";

/// The formula that [`ideal_bubble`] follows, for people.
pub fn bubble_formula(config: &ScheduleConfig) -> &'static str {
    formula(config).0
}

/// The formula, and in it what stands beside `pp - 1` below the line.
fn formula(config: &ScheduleConfig) -> (&'static str, f64) {
    let (vp, m) = (f64::from(config.vp()), f64::from(config.microbatches()));
    match config.placement().shape() {
        _ if defers_weights(config) => (ZERO_BUBBLE_FORMULA, 3.0 * vp * m),
        Shape::V => (V_FORWARD_FORMULA, m),
        Shape::Loop => (BUBBLE_FORMULA, vp * m),
    }
}

/// Whether weight gradients fill what would be idle time.
fn defers_weights(config: &ScheduleConfig) -> bool {
    let kind_does = match config.kind() {
        ScheduleKind::NoPipelining
        | ScheduleKind::GPipe
        | ScheduleKind::OneFOneB
        | ScheduleKind::Interleaved
        | ScheduleKind::LoopedBfs => false,
        ScheduleKind::ZbH1
        | ScheduleKind::ZbH2
        | ScheduleKind::InterleavedZb
        | ScheduleKind::ZbV
        | ScheduleKind::VHalf
        | ScheduleKind::VMin
        | ScheduleKind::DualPipeV => true,
    };
    kind_does && !config.forward_only()
}

/// The share of a step's time, from its start to its end, that each rank idles, when all stages cost the same (a backward
/// twice its forward, each half of it as much as the forward) and communication is free.
///
/// With whole backwards `(pp - 1) / (vp * m + pp - 1)` (Narayanan et al. 2021, as a share of the whole step): the pipeline
/// is filled by forwards and drained by backwards. With the zero-bubble schedules `(pp - 1) / (3 * vp * m + pp - 1)`: only
/// the forwards of one chunk that the last rank waits for are lost (Qi et al. 2023; the measure is
/// [`crate::simulate::Timeline::bubble`], not that of the longest stage, by which ZB-H2 and ZB-V have no bubble at all).
/// Forwards alone over a V have `(pp - 1) / (m + pp - 1)`: they end where they started, on rank 0.
///
/// `None` where no closed form is known: interleaved groups that do not fulfil the schedule's rule (`--allow-bubbles`), fewer
/// microbatches than fill the pipeline, and orders that come from a search.
pub fn ideal_bubble(config: &ScheduleConfig) -> Option<f64> {
    let (pp, vp, m) = (config.pp(), config.vp(), config.microbatches());
    let training = !config.forward_only();
    let is_full = match (config.kind(), config.groups()) {
        (ScheduleKind::Interleaved, Groups::Even { count }) => {
            m.is_multiple_of(count) && group_rule_holds(pp, m / count, m)
        }
        (ScheduleKind::LoopedBfs, _) => m >= pp || vp == 1,
        (ScheduleKind::InterleavedZb, _) => m >= pp || (vp == 1 && !training),
        (ScheduleKind::ZbH1 | ScheduleKind::ZbH2, _) if training => m >= pp,
        (ScheduleKind::ZbV, _) if training => pp == 1 || 2 * m >= 3 * pp - 1,
        (ScheduleKind::DualPipeV, _) if training => pp == 1 || m >= 2 * pp,
        (ScheduleKind::VHalf | ScheduleKind::VMin, _) => pp == 1,
        _ => true,
    };
    let fill = f64::from(pp - 1);
    is_full.then(|| fill / (formula(config).1 + fill))
}

/// A bubble in closed form.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClosedForm {
    /// The idle share of the makespan.
    pub bubble: f64,
    /// The formula, for people.
    pub formula: &'static str,
}

/// The idle share of the makespan when every stage costs the same and communication is free, where a closed form is known.
///
/// With whole backwards it is [`ideal_bubble`] whatever a forward and a backward cost. The zero-bubble schedules have it for
/// `F = I = W`; ZB-H1 loses `(pp - 1) * (F + I - W)` as long as weight gradients fit where they are put, `W <= F` and
/// `W <= I` (Qi et al. 2023, where it is the bubble of the longest stage time, which ZB-H1 shares).
pub fn closed_form(config: &ScheduleConfig, costs: StageCosts) -> Option<ClosedForm> {
    let bubble = ideal_bubble(config)?;
    let StageCosts { forward, backward, backward_input, backward_weight } = costs;
    let zero_bubble = defers_weights(config);
    if !zero_bubble || (forward == backward_input && forward == backward_weight) {
        let whole = !zero_bubble || backward == backward_input + backward_weight;
        return whole.then(|| ClosedForm { bubble, formula: bubble_formula(config) });
    }
    let fits = backward_weight <= forward.min(backward_input) && backward_weight > 0;
    (config.kind() == ScheduleKind::ZbH1 && fits).then(|| {
        let fill = f64::from(config.pp() - 1) * (forward + backward_input - backward_weight) as f64;
        let work = f64::from(config.microbatches()) * (forward + backward_input + backward_weight) as f64;
        ClosedForm { bubble: fill / (work + fill), formula: ZB_H1_FORMULA }
    })
}

/// How a rank's work falls into phases, in virtual microbatches: Megatron's counts, and for schedules that Megatron does not
/// have, what their order shows.
pub fn counts(config: &ScheduleConfig, rank: Rank) -> Counts {
    let interleaved = config.kind() == ScheduleKind::Interleaved;
    let has_chunks = interleaved || config.vp() > 1;
    let counts = Counts::new(CountsInput {
        pp: config.pp(),
        rank,
        vp: has_chunks.then(|| config.vp()),
        microbatches: config.microbatches(),
        group_size: config.groups().largest(config.microbatches()),
        forward_only: config.forward_only(),
    });
    match config.kind() {
        ScheduleKind::NoPipelining | ScheduleKind::GPipe | ScheduleKind::OneFOneB | ScheduleKind::Interleaved => counts,
        _ => {
            let order = rank_order(config, rank);
            let warmup = order.iter().take_while(|work| work.kind == WorkKind::Forward).count() as u32;
            let (remaining, all_in_warmup) = (counts.total - warmup, warmup == counts.total);
            Counts { warmup, remaining, all_in_warmup, warmup_moe_overlap: warmup, ..counts }
        }
    }
}

/// The most that a rank has saved for its backwards at any one time, in microbatches of one chunk: from a forward until its
/// backward, or its backward for the weights, has run ([`crate::simulate::RankReport::peak_saved`]).
pub fn peak_saved(config: &ScheduleConfig, rank: Rank) -> u32 {
    let (pp, vp, m) = (config.pp(), config.vp(), config.microbatches());
    match config.kind() {
        _ if config.forward_only() => 0,
        ScheduleKind::NoPipelining => vp,
        ScheduleKind::GPipe | ScheduleKind::LoopedBfs => vp * m,
        ScheduleKind::OneFOneB | ScheduleKind::Interleaved => {
            let Counts { total, warmup, .. } = counts(config, rank);
            total.min(warmup + 1)
        }
        ScheduleKind::ZbH1 => m.min(pp),
        ScheduleKind::ZbH2 => m.min(2 * pp - 1),
        ScheduleKind::InterleavedZb => (vp * m).min((vp - 1) * config.groups().largest(m) + pp),
        // With few microbatches a rank has all of them in its first chunk before its second runs backwards.
        ScheduleKind::ZbV => (2 * pp).min(m + m.min(rank.0 + 1)),
        ScheduleKind::VHalf | ScheduleKind::VMin => most_saved(&rank_order(config, rank)),
        ScheduleKind::DualPipeV => (2 * pp + 1).min(m + m.min(rank.0 + 1)),
    }
}

/// [`peak_saved`] of every rank, with a search made once for all.
pub fn peaks_saved(config: &ScheduleConfig) -> Vec<u32> {
    if config.kind().is_searched() && !config.forward_only() {
        return all_orders(config).iter().map(|order| most_saved(order)).collect();
    }
    (0..config.pp()).map(|rank| peak_saved(config, Rank(rank))).collect()
}

/// The most microbatches of a chunk that an order has saved at once.
fn most_saved(order: &[Work]) -> u32 {
    let mut saved = 0_u32;
    let counts = order.iter().map(|work| {
        match work.kind {
            WorkKind::Forward => saved += 1,
            WorkKind::Backward | WorkKind::BackwardWeight => saved -= 1,
            WorkKind::BackwardInput => {}
        }
        saved
    });
    counts.max().unwrap_or(0)
}
