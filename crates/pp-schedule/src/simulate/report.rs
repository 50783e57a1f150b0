//! The figures of a timeline.

use super::critical_path::{CriticalPath, critical_path};
use super::memory::{Level, StageBytes, levels};
use super::timeline::{Span, Timeline};
use crate::ids::{Rank, Stage};

/// Figures of one rank. Times in ticks; `busy + wait + idle` is the makespan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankReport {
    /// The rank.
    pub rank: Rank,
    /// When its first computation starts.
    pub start: u64,
    /// When its last computation ends.
    pub end: u64,
    /// Time in computations.
    pub busy: u64,
    /// Time between its first and its last computation in which it waits for others.
    pub wait: u64,
    /// The part of `wait` in which it waits for a send's buffer to be free.
    pub wait_send: u64,
    /// Time before its first and after its last computation.
    pub idle: u64,
    /// The most activations in flight at once, in microbatches of one chunk.
    pub peak_in_flight: u32,
    /// The most weight gradients deferred at once, in microbatches of one chunk.
    pub peak_deferred: u32,
    /// The most of both at once: the saved slots that its program has.
    pub peak_saved: u32,
    /// The most bytes of both at once.
    pub peak_bytes: u64,
}

/// Figures of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// From 0 until the last computation ends.
    pub makespan: u64,
    /// The longest time, over ranks, from a rank's first computation to its last.
    pub longest_stage: u64,
    /// Idle share of the makespan; see [`Timeline::bubble`].
    pub bubble: f64,
    /// Idle share of the longest stage time; see [`Timeline::longest_stage_bubble`].
    pub longest_stage_bubble: f64,
    /// By rank.
    pub ranks: Vec<RankReport>,
    /// What decides the makespan.
    pub critical_path: CriticalPath,
}

impl Report {
    /// The figures of a timeline; `bytes` says what a stage holds.
    pub fn new(timeline: &Timeline, bytes: impl Fn(Stage) -> StageBytes) -> Self {
        let makespan = timeline.makespan();
        let forward_only = timeline.extent().forward_only;
        let ranks = (0..).map(Rank).zip(timeline.rows()).map(|(rank, row)| {
            let wait_send = timeline.wait_send[rank.idx()];
            of_rank(rank, row, wait_send, makespan, &levels(row, forward_only, &bytes))
        });
        Self {
            makespan,
            longest_stage: timeline.longest_stage(),
            bubble: timeline.bubble(),
            longest_stage_bubble: timeline.longest_stage_bubble(),
            ranks: ranks.collect(),
            critical_path: critical_path(timeline),
        }
    }
}

fn of_rank(rank: Rank, row: &[Span], wait_send: u64, makespan: u64, levels: &[Level]) -> RankReport {
    let (start, end) = (row.first().map_or(0, |span| span.start), row.last().map_or(0, |span| span.end));
    let busy = row.iter().map(|span| span.end - span.start).sum();
    let peak = |of: fn(&Level) -> u32| levels.iter().map(of).max().unwrap_or(0);
    RankReport {
        rank,
        start,
        end,
        busy,
        wait: end - start - busy,
        wait_send,
        idle: makespan - (end - start),
        peak_in_flight: peak(|level| level.in_flight),
        peak_deferred: peak(|level| level.deferred),
        peak_saved: peak(|level| level.in_flight + level.deferred),
        peak_bytes: levels.iter().map(|level| level.bytes).max().unwrap_or(0),
    }
}
