//! The result of a simulation or of a measurement: what ran when.

use crate::deps::Message;
use crate::ids::Rank;
use crate::order::Extent;
use crate::work::Work;

/// Why a computation started no earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// It started at once.
    Nothing,
    /// The computation before it on its rank ended just then.
    Previous,
    /// It waited for what another rank did: the end of that rank's computation number `index`, and a message's way.
    Other {
        /// The rank waited for.
        rank: Rank,
        /// The number of the computation, in that rank's row.
        index: u32,
    },
}

/// A computation and when it runs, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// What runs.
    pub work: Work,
    /// When it starts.
    pub start: u64,
    /// When it ends.
    pub end: u64,
    /// Why not earlier.
    pub after: After,
}

/// A message on its way between two ranks, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flight {
    /// What is sent.
    pub message: Message,
    /// From which rank.
    pub source: Rank,
    /// To which rank.
    pub destination: Rank,
    /// When it leaves.
    pub start: u64,
    /// When it is there.
    pub end: u64,
}

/// When every computation of a step runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeline {
    pub(super) extent: Extent,
    pub(super) rows: Vec<Vec<Span>>,
    pub(super) flights: Vec<Flight>,
    /// By rank: ticks spent waiting for a send's buffer to be free.
    pub(super) wait_send: Vec<u64>,
}

impl Timeline {
    /// A timeline that was measured: each rank's computations in turn. Times are from a common zero.
    pub fn measured(extent: Extent, rows: Vec<Vec<Span>>) -> Self {
        let wait_send = vec![0; rows.len()];
        Self { extent, rows, flights: Vec::new(), wait_send }
    }

    /// What it is over.
    pub const fn extent(&self) -> Extent {
        self.extent
    }

    /// The spans of each rank, in turn.
    pub fn rows(&self) -> &[Vec<Span>] {
        &self.rows
    }

    /// The messages between ranks, by rank that sends and in the order in which it made them; empty where the way of
    /// messages was not simulated.
    pub fn flights(&self) -> &[Flight] {
        &self.flights
    }

    /// When the last computation ends.
    pub fn makespan(&self) -> u64 {
        self.rows.iter().filter_map(|row| row.last()).map(|span| span.end).max().unwrap_or(0)
    }

    /// The longest time, over ranks, from the start of a rank's first computation to the end of its last.
    pub fn longest_stage(&self) -> u64 {
        let time = |row: &Vec<Span>| Some(row.last()?.end - row.first()?.start);
        self.rows.iter().filter_map(time).max().unwrap_or(0)
    }

    /// Ticks of all computations of all ranks.
    pub fn busy(&self) -> u64 {
        self.rows.iter().flatten().map(|span| span.end - span.start).sum()
    }

    /// The share of all ranks' time, from 0 to the makespan, in which they compute nothing.
    pub fn bubble(&self) -> f64 {
        self.idle_share_of(self.makespan())
    }

    /// The share of idle time if every rank took as long as the one that takes longest from its own first computation to
    /// its own last: the bubble rate of the zero-bubble paper (Qi et al. 2023), which steps that follow each other
    /// without a barrier approach.
    pub fn longest_stage_bubble(&self) -> f64 {
        self.idle_share_of(self.longest_stage())
    }

    fn idle_share_of(&self, time: u64) -> f64 {
        let all = u128::from(time) * self.rows.len() as u128;
        if all == 0 { 0.0 } else { all.saturating_sub(self.busy().into()) as f64 / all as f64 }
    }
}
