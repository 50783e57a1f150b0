//! Exhaustion of small sizes: every schedule under every policy is proved, or refused by the stated rule.
//!
//! Deadlocks of pipeline schedules, where there are any, show at small sizes, so all of those are looked at rather than
//! a sample. The rules of what may run are stated here a second time, in a form of their own; a disagreement with
//! [`ScheduleConfig::new`] or with a policy is a failure, as is a program that does not verify. With the feature `rayon`
//! all cores take part; the report is the same.

use std::ops::RangeInclusive;

use crate::config::{GPipeBackward, ScheduleConfig, ScheduleKind, ScheduleSpec};
use crate::groups::Groups;
use crate::lower::megatron::{self, Issue, Options, Overlap};
use crate::lower::{lanes, stagger};
use crate::program::Program;
use crate::verify::check;

/// The sizes to go through. Group sizes are all from `pp` to the number of microbatches, and the default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Pipeline ranks.
    pub pp: RangeInclusive<u32>,
    /// Model chunks per rank.
    pub vp: RangeInclusive<u32>,
    /// Microbatches per step.
    pub microbatches: RangeInclusive<u32>,
}

impl Bounds {
    /// Up to 8 ranks, 4 chunks and 24 microbatches.
    pub const FULL: Self = Self { pp: 1..=8, vp: 1..=4, microbatches: 1..=24 };
}

/// How many were lowered and verified, and how many refused, as the rules have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Tally {
    /// Verified.
    pub proved: u64,
    /// Refused by the rule.
    pub refused: u64,
}

/// What a sweep found.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Report {
    /// Specs: those that are schedules, and those that are not.
    pub specs: Tally,
    /// Programs of the `lanes` policy.
    pub lanes: Tally,
    /// Programs of the `megatron` policy, over its ways to issue, overlap and free.
    pub megatron: Tally,
    /// Programs of the `stagger` policy.
    pub stagger: Tally,
    /// Actions of all programs verified.
    pub actions: u64,
    /// What is not as it should be, one line each.
    pub failures: Vec<String>,
}

impl Report {
    /// Programs verified.
    pub const fn proved(&self) -> u64 {
        self.lanes.proved + self.megatron.proved + self.stagger.proved
    }

    fn add(mut self, other: Self) -> Self {
        for (mine, theirs) in [
            (&mut self.specs, other.specs),
            (&mut self.lanes, other.lanes),
            (&mut self.megatron, other.megatron),
            (&mut self.stagger, other.stagger),
        ] {
            mine.proved += theirs.proved;
            mine.refused += theirs.refused;
        }
        self.actions += other.actions;
        self.failures.extend(other.failures);
        self
    }
}

/// Goes through all sizes within the bounds, for training and forward-only.
///
/// ```
/// use pp_schedule::sweep::{Bounds, sweep};
/// let report = sweep(&Bounds { pp: 1..=2, vp: 1..=2, microbatches: 1..=3 });
/// assert!(report.failures.is_empty());
/// assert!(report.proved() > 100);
/// ```
pub fn sweep(bounds: &Bounds) -> Report {
    let mut sizes = Vec::new();
    for pp in bounds.pp.clone() {
        for vp in bounds.vp.clone() {
            sizes.extend(bounds.microbatches.clone().map(|microbatches| (pp, vp, microbatches)));
        }
    }
    // The largest first, so that no core is left with one of them at the end.
    sizes.sort_by_key(|&(pp, vp, microbatches)| std::cmp::Reverse(pp * vp * microbatches));
    over(&sizes)
}

#[cfg(feature = "rayon")]
fn over(sizes: &[(u32, u32, u32)]) -> Report {
    use rayon::prelude::*;
    sizes.par_iter().with_max_len(1).map(|&size| at(size)).reduce(Report::default, Report::add)
}

#[cfg(not(feature = "rayon"))]
fn over(sizes: &[(u32, u32, u32)]) -> Report {
    sizes.iter().map(|&size| at(size)).fold(Report::default(), Report::add)
}

/// All schedules of one size.
fn at((pp, vp, microbatches): (u32, u32, u32)) -> Report {
    let mut report = Report::default();
    for spec in specs(pp, vp, microbatches) {
        let config = ScheduleConfig::new(&spec);
        if config.is_ok() != is_schedule(&spec) {
            report.failures.push(format!("{spec:?}: {config:?}"));
        }
        match config {
            Ok(config) => {
                report.specs.proved += 1;
                policies(&config, &mut report);
            }
            Err(_) => report.specs.refused += 1,
        }
    }
    report
}

fn specs(pp: u32, vp: u32, microbatches: u32) -> Vec<ScheduleSpec> {
    let of = |kind| ScheduleSpec { schedule: Some(kind), ..ScheduleSpec::new(pp, vp, microbatches) };
    let interleaved = of(ScheduleKind::Interleaved);
    let mut specs = vec![of(ScheduleKind::NoPipelining), of(ScheduleKind::OneFOneB)];
    for order in [GPipeBackward::Reverse, GPipeBackward::Ascending] {
        specs.push(ScheduleSpec { gpipe_backward: Some(order), ..of(ScheduleKind::GPipe) });
    }
    for kind in [ScheduleKind::LoopedBfs, ScheduleKind::ZbH1, ScheduleKind::ZbH2, ScheduleKind::InterleavedZb] {
        specs.push(of(kind));
    }
    specs.extend([ScheduleKind::ZbV, ScheduleKind::VHalf, ScheduleKind::VMin, ScheduleKind::DualPipeV].map(of));
    specs.push(interleaved.clone());
    for kind in [ScheduleKind::Interleaved, ScheduleKind::InterleavedZb, ScheduleKind::DualPipeV] {
        specs.push(ScheduleSpec { allow_bubbles: true, ..of(kind) });
    }
    let groups = pp..=microbatches;
    specs.extend(groups.map(|group| ScheduleSpec { group_size: Some(group), ..interleaved.clone() }));
    let forward_only = specs.clone().into_iter().map(|spec| ScheduleSpec { forward_only: true, ..spec });
    specs.extend(forward_only.collect::<Vec<_>>());
    specs
}

/// The rules of what is a schedule.
fn is_schedule(spec: &ScheduleSpec) -> bool {
    let &ScheduleSpec { pp, vp, microbatches: m, .. } = spec;
    let group = spec.group_size.unwrap_or(pp);
    match spec.resolved_kind() {
        ScheduleKind::NoPipelining => pp == 1,
        ScheduleKind::GPipe | ScheduleKind::OneFOneB | ScheduleKind::ZbH1 | ScheduleKind::ZbH2 => vp == 1,
        ScheduleKind::LoopedBfs => true,
        ScheduleKind::InterleavedZb => spec.allow_bubbles || m < 2 * pp || m % (m / pp) == 0,
        // One chunk is no request: it stands for the two that they have.
        ScheduleKind::ZbV | ScheduleKind::VHalf | ScheduleKind::VMin => vp <= 2,
        ScheduleKind::DualPipeV => vp <= 2 && (spec.allow_bubbles || m >= 2 * pp),
        ScheduleKind::Interleaved if pp == 1 => false,
        ScheduleKind::Interleaved => {
            spec.allow_bubbles || (pp <= group && group <= m && !(1..pp).contains(&(m % group)))
        }
    }
}

fn policies(config: &ScheduleConfig, report: &mut Report) {
    let proved = verified(config, "lanes", true, Ok::<_, std::convert::Infallible>(lanes::lower(config)), report);
    report.lanes.count(proved);
    let (training, one_f_one_b) = (!config.forward_only(), config.kind() == ScheduleKind::OneFOneB);
    let may_stagger = one_f_one_b && training && config.microbatches() >= config.pp();
    let proved = verified(config, "stagger", may_stagger, stagger::lower(config), report);
    report.stagger.count(proved);
    for issue in [Issue::Batched, Issue::EvenOdd, Issue::Ring] {
        for overlap in [Overlap::Off, Overlap::Steady, Overlap::WarmupFlush] {
            for deallocate in [true, false] {
                let options = Options { issue, overlap, deallocate, ..Options::default() };
                let may = megatron_runs(config, issue, overlap);
                let proved = verified(config, "megatron", may, megatron::lower(config, options), report);
                report.megatron.count(proved);
            }
        }
    }
}

impl Tally {
    fn count(&mut self, proved: bool) {
        *if proved { &mut self.proved } else { &mut self.refused } += 1;
    }
}

/// The rules of what the `megatron` policy runs.
fn megatron_runs(config: &ScheduleConfig, issue: Issue, overlap: Overlap) -> bool {
    let one_by_one = issue == Issue::EvenOdd;
    match config.kind() {
        ScheduleKind::GPipe
        | ScheduleKind::LoopedBfs
        | ScheduleKind::ZbH1
        | ScheduleKind::ZbH2
        | ScheduleKind::InterleavedZb
        | ScheduleKind::ZbV
        | ScheduleKind::VHalf
        | ScheduleKind::VMin
        | ScheduleKind::DualPipeV => false,
        ScheduleKind::NoPipelining | ScheduleKind::OneFOneB => overlap == Overlap::Off,
        // Uneven groups are not Megatron's.
        ScheduleKind::Interleaved if matches!(config.groups(), Groups::Even { .. }) => false,
        // Over two ranks, batches take activations for gradients.
        ScheduleKind::Interleaved if config.pp() == 2 && !one_by_one => false,
        // The last rank has no warmup to overlap with when there is one chunk.
        ScheduleKind::Interleaved => {
            overlap == Overlap::Off || (one_by_one && (config.vp() > 1 || config.forward_only()))
        }
    }
}

/// Whether there is a program and it verifies; anything but what the rule says is a failure.
fn verified<E: std::fmt::Display>(
    config: &ScheduleConfig,
    policy: &str,
    expected: bool,
    lowered: Result<Program, E>,
    report: &mut Report,
) -> bool {
    let verdict = match &lowered {
        Ok(program) => check(program).map_err(|error| error.to_string()),
        Err(refusal) => Err(refusal.to_string()),
    };
    // What the rule admits must verify; what it does not must not even be lowered.
    let as_expected = verdict.is_ok() == expected && lowered.is_ok() == expected;
    if !as_expected {
        report.failures.push(format!("{policy}, expected to run: {expected}; {config:?}: {verdict:?}"));
    }
    if let Ok(program) = &lowered {
        report.actions += program.ranks.iter().map(|rank| rank.actions.len() as u64).sum::<u64>();
    }
    verdict.is_ok()
}
