//! The search: candidates in the order of what they take at least, simulated until the rest cannot be better.

use std::collections::{HashMap, HashSet};

use super::candidate::{Candidate, Candidates, Family, Refused, candidates};
use super::error::PlanError;
use super::memory::{RankMemory, fullest, memory};
use super::model::Recompute;
use super::request::Request;
use crate::config::ScheduleKind;
use crate::ids::{Rank, Stage};
use crate::lower::lanes;
use crate::order::Order;
use crate::simulate::{Costs, Report, Sends, Stuck, Timeline};
use crate::verify::verify;

/// So many candidates are looked at before what was learnt from them is used on the others. The same on every machine,
/// so that every machine simulates the same ones.
const ROUND: usize = 32;

/// A candidate that fits, simulated.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// What was simulated.
    pub candidate: Candidate,
    /// Ticks of a step, the sum over replicas included.
    pub step: u64,
    /// Ticks of the pipeline: from the first computation to the end of the last.
    pub makespan: u64,
    /// Ticks that the busiest rank computes.
    pub busiest: u64,
    /// Idle share of the pipeline's time over all ranks.
    pub bubble: f64,
    /// Of the fullest rank.
    pub memory: RankMemory,
    /// Whether the times are those of its program, message queues included, rather than of its order.
    pub played: bool,
}

/// A candidate that does not fit.
#[derive(Clone, Debug, PartialEq)]
pub struct Misfit {
    /// What does not fit.
    pub candidate: Candidate,
    /// Of the fullest rank.
    pub memory: RankMemory,
    /// Ticks of a step if there were more memory; simulated only where that could beat the winner.
    pub step: Option<u64>,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Plan {
    /// Those that fit, best first. Only the best of each family and of as many families as were asked for are sure to be
    /// here.
    pub fits: Vec<Choice>,
    /// Those that do not fit: one of each family of which none fits or one would beat the winner. First those that would,
    /// then the others, each by the memory they take.
    pub misfits: Vec<Misfit>,
    /// One of each family of which none was simulated: all take at least as long as the families asked for.
    pub slower: Vec<Candidate>,
    /// What is not possible, and why.
    pub refused: Vec<Refused>,
    /// Candidates there were.
    pub n_candidates: usize,
    /// Those that do not fit.
    pub n_misfits: usize,
    /// Those that were not simulated, as they take at least as long as what was found.
    pub n_bounded: usize,
    /// The most group sizes admitted for one schedule and how many of them were tried, where not all were.
    pub sampled: Option<(usize, usize)>,
}

/// A candidate played out by itself: all that is needed to draw it.
#[derive(Clone, Debug)]
pub struct Simulation {
    /// Who computes what, in turn.
    pub order: Order,
    /// What it costs; ticks are nanoseconds.
    pub costs: Costs,
    /// What runs when.
    pub timeline: Timeline,
    /// Figures, memory of activations included.
    pub report: Report,
}

impl Candidate {
    /// Simulates the candidate by itself.
    ///
    /// # Errors
    /// [`Stuck`] if its order does not run to its end, which no generated one does.
    pub fn simulate(&self) -> Result<Simulation, Stuck> {
        let (order, costs) = (Order::generate(&self.config), self.stages.costs());
        let timeline = Timeline::of_order(&order, &costs)?;
        let report = Report::new(&timeline, |stage| self.stages.bytes(stage));
        Ok(Simulation { order, costs, timeline, report })
    }

    /// Bytes of every rank.
    pub fn memory(&self, message: u64) -> Vec<RankMemory> {
        memory(&self.config, &Order::generate(&self.config), &self.stages, message, self.n_replicas)
    }
}

/// Ranks everything that can be tried by predicted step time.
///
/// A step lasts until the last rank is done with its computations and, over replicas, with adding up its gradients. Times
/// are those of [`Timeline::of_order`], but for the [`Request::play`] best: these are ranked anew by their programs under
/// the `lanes` policy ([`Timeline::of_program`]). Of candidates that are equally fast the one that takes less memory comes first,
/// then the one that computes less again, has fewer chunks, and smaller groups. The result depends on the request alone,
/// not on how many threads take part (feature `rayon`).
///
/// # Errors
/// [`PlanError`] when nothing at all can be tried. That nothing fits is no error: then [`Plan::fits`] is empty.
pub fn plan(request: &Request) -> Result<Plan, PlanError> {
    search(request, true)
}

pub(super) fn search(request: &Request, parallel: bool) -> Result<Plan, PlanError> {
    check(request)?;
    let Candidates { mut all, refused, sampled } = candidates(request)?;
    if let (true, Some(first)) = (all.is_empty(), refused.first()) {
        return Err(PlanError::NoCandidate(first.rule.clone()));
    }
    all.sort_by_key(|candidate| (candidate.least_step, turn(candidate)));
    let mut found = Plan { n_candidates: all.len(), refused, sampled, ..Plan::default() };
    let mut best: HashMap<Family, u64> = HashMap::new();
    let mut skipped = Vec::new();
    let mut queue = all.into_iter().peekable();
    while queue.peek().is_some() {
        let enough = limit(&best, request.top);
        // A family's later group sizes have to beat what the family has.
        let beats = |candidate: &Candidate| {
            candidate.least_step <= enough
                && best.get(&candidate.family()).is_none_or(|step| candidate.least_step < *step)
        };
        let mut round = Vec::with_capacity(ROUND);
        while round.len() < ROUND
            && let Some(candidate) = queue.next()
        {
            if beats(&candidate) { round.push(candidate) } else { skipped.push(candidate) }
        }
        for outcome in each(&round, parallel, |candidate| look_at(request, candidate)) {
            match outcome {
                Outcome::Fits(choice) => {
                    let step = best.entry(choice.candidate.family()).or_insert(choice.step);
                    *step = choice.step.min(*step);
                    found.fits.push(*choice);
                }
                Outcome::DoesNot(misfit) => found.misfits.push(*misfit),
                Outcome::Stuck => {}
            }
        }
    }
    finish(request, &mut found, skipped, parallel);
    Ok(found)
}

fn check(request: &Request) -> Result<(), PlanError> {
    let nothing = |what, known: Vec<&str>| Err(PlanError::Nothing { what, known: known.join(", ") });
    if request.model.layers.is_empty() {
        return Err(PlanError::NoLayers);
    }
    if request.kinds.is_empty() {
        return nothing("schedule", ScheduleKind::ALL.iter().map(|kind| kind.name()).collect());
    }
    if !request.recompute.iter().any(|recompute| request.model.knows(*recompute)) {
        return nothing(
            "way to recompute",
            vec!["none, full, and selective where attention's part of a layer is known"],
        );
    }
    if request.ways.is_empty() || request.vps.as_ref().is_some_and(Vec::is_empty) {
        return nothing("number of ranks or chunks", vec!["1 and more"]);
    }
    if request.model.parts().all(|part| part.microbatch() == 0) {
        return Err(PlanError::NoCosts);
    }
    Ok(())
}

/// The step of the last of the families asked for; anything goes before there are as many.
fn limit(best: &HashMap<Family, u64>, top: usize) -> u64 {
    let mut steps: Vec<u64> = best.values().copied().collect();
    steps.sort_unstable();
    steps.get(top.max(1) - 1).copied().unwrap_or(u64::MAX)
}

/// Turn of candidates that are alike in time and memory.
fn turn(candidate: &Candidate) -> (Recompute, u32, u32, usize, u32) {
    let spec = &candidate.spec;
    (candidate.recompute, spec.vp, spec.pp, candidate.kind_at, spec.group_size.unwrap_or(0))
}

enum Outcome {
    Fits(Box<Choice>),
    DoesNot(Box<Misfit>),
    /// Its order never ends, which is no generated order's way.
    Stuck,
}

fn look_at(request: &Request, candidate: &Candidate) -> Outcome {
    let order = Order::generate(&candidate.config);
    let ranks = memory(&candidate.config, &order, &candidate.stages, request.model.message, candidate.n_replicas);
    let Some(memory) = fullest(&ranks) else { return Outcome::Stuck };
    let candidate = candidate.clone();
    if request.machine.memory.is_some_and(|limit| memory.total() > limit) {
        return Outcome::DoesNot(Box::new(Misfit { candidate, memory, step: None }));
    }
    match simulated(request, &candidate, &order) {
        None => Outcome::Stuck,
        Some((step, timeline)) => Outcome::Fits(Box::new(Choice {
            candidate,
            step,
            makespan: timeline.makespan(),
            busiest: timeline
                .rows()
                .iter()
                .map(|row| row.iter().map(|span| span.end - span.start).sum())
                .max()
                .unwrap_or(0),
            bubble: timeline.bubble(),
            memory,
            played: false,
        })),
    }
}

/// Ticks of a step, and the timeline they come from.
fn simulated(request: &Request, candidate: &Candidate, order: &Order) -> Option<(u64, Timeline)> {
    let timeline = Timeline::of_order(order, &candidate.stages.costs()).ok()?;
    Some((step_of(request, candidate, &timeline), timeline))
}

/// Until the last rank is done, adding up gradients over replicas included.
fn step_of(request: &Request, candidate: &Candidate, timeline: &Timeline) -> u64 {
    let placement = candidate.config.placement();
    let ends = (0..).map(Rank).zip(timeline.rows()).map(|(rank, row)| {
        let gradient = |stage: Stage| candidate.stages.loads[stage.idx()].weights.gradient;
        let gradients = placement.stages_of(rank).map(gradient).sum();
        row.last().map_or(0, |span| span.end) + request.machine.reduce(gradients, candidate.n_replicas)
    });
    ends.max().unwrap_or(0)
}

/// Plays the first of those that fit out as programs, and puts them into the order of what they take then.
fn play(request: &Request, fits: &mut [Choice], parallel: bool) {
    let n = request.play.min(fits.len());
    let (first, _) = fits.split_at_mut(n);
    let timelines = each(first, parallel, |choice| {
        let program = verify(lanes::lower(&choice.candidate.config)).ok()?;
        Timeline::of_program(program.program(), &choice.candidate.stages.costs(), Sends::Eager).ok()
    });
    for (choice, timeline) in first.iter_mut().zip(timelines) {
        // A generated order's program is proved and runs; what did not would keep its times.
        let Some(timeline) = timeline else { continue };
        choice.step = step_of(request, &choice.candidate, &timeline);
        (choice.makespan, choice.bubble, choice.played) = (timeline.makespan(), timeline.bubble(), true);
    }
    first.sort_by_key(rank_of);
}

/// Best first.
fn rank_of(choice: &Choice) -> (u64, u64, (Recompute, u32, u32, usize, u32)) {
    (choice.step, choice.memory.total(), turn(&choice.candidate))
}

/// Sorts what was found, keeps one of each family that lost, and simulates those that the winner has to be compared with.
fn finish(request: &Request, found: &mut Plan, skipped: Vec<Candidate>, parallel: bool) {
    found.fits.sort_by_key(rank_of);
    play(request, &mut found.fits, parallel);
    (found.n_misfits, found.n_bounded) = (found.misfits.len(), skipped.len());
    let fitting: HashSet<Family> = found.fits.iter().map(|choice| choice.candidate.family()).collect();
    let winner = found.fits.first().map(|choice| choice.step);
    let could_win = |misfit: &Misfit| winner.is_some_and(|winner| misfit.candidate.least_step < winner);
    let smallest = |misfit: &Misfit| (misfit.memory.total(), misfit.candidate.least_step, turn(&misfit.candidate));
    found.misfits.sort_by_key(|misfit| (!could_win(misfit), smallest(misfit)));
    let mut told = HashSet::new();
    found.misfits.retain(|misfit| {
        let family = misfit.candidate.family();
        (could_win(misfit) || !fitting.contains(&family)) && told.insert(family)
    });
    let steps = each(&found.misfits, parallel, |misfit| {
        let simulate = || simulated(request, &misfit.candidate, &Order::generate(&misfit.candidate.config));
        could_win(misfit).then(simulate).flatten().map(|(step, _)| step)
    });
    for (misfit, step) in found.misfits.iter_mut().zip(steps) {
        misfit.step = step;
    }
    let wins = |misfit: &Misfit| misfit.step.zip(winner).is_some_and(|(step, best)| step < best);
    found.misfits.retain(|misfit| wins(misfit) || !fitting.contains(&misfit.candidate.family()));
    found.misfits.sort_by_key(|misfit| (!wins(misfit), smallest(misfit)));
    let mut told: HashSet<Family> = found.misfits.iter().map(|misfit| misfit.candidate.family()).collect();
    let skipped = skipped.into_iter();
    found.slower = skipped.filter(|c| !fitting.contains(&c.family()) && told.insert(c.family())).collect();
}

/// Does the same to each, in parallel if that is built in and wanted; results in the order of the items.
#[cfg(feature = "rayon")]
fn each<T: Sync, R: Send>(items: &[T], parallel: bool, of: impl Fn(&T) -> R + Sync + Send) -> Vec<R> {
    use rayon::prelude::*;
    if parallel { items.par_iter().with_max_len(1).map(of).collect() } else { items.iter().map(of).collect() }
}

#[cfg(not(feature = "rayon"))]
fn each<T, R>(items: &[T], _parallel: bool, of: impl Fn(&T) -> R) -> Vec<R> {
    items.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Batch, Layer, Machine, Model, Part, Way};
    use super::*;

    #[test]
    fn the_plan_is_the_same_on_one_core_and_on_all() {
        let part = |at: u64| Part {
            forward: 100 + at % 5,
            backward_input: 100,
            backward_weight: 90,
            activation: 10 + at,
            ..Part::default()
        };
        let layers = (0..16).map(|at| Layer { part: part(at), input: 1, core: None }).collect();
        let model = Model { layers, message: 8, ..Model::default() };
        for memory in [None, Some(900), Some(350), Some(1)] {
            let machine = Machine { memory, latency: 13, ..Machine::default() };
            let ways = Way::all(8, Batch::Global { global: 64, micro: 1 });
            let request = Request { top: 4, ..Request::new(model.clone(), ways, machine) };
            let found = search(&request, true).unwrap();
            assert_eq!(found, search(&request, false).unwrap());
            assert!(found.n_candidates > 3 * ROUND);
        }
    }
}
