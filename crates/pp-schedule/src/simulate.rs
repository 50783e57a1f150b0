//! When each computation runs: an order played out with a cost per kind and free communication.

use crate::deps::{input_of, output_of, state_from};
use crate::ids::Rank;
use crate::order::Order;
use crate::work::{Work, WorkKind};

/// What one computation costs, by kind, on every stage alike. Any unit of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// A forward.
    pub forward: u64,
    /// A full backward.
    pub backward: u64,
    /// A backward for the input.
    pub backward_input: u64,
    /// A backward for the weights.
    pub backward_weight: u64,
}

impl Costs {
    /// A forward of one chunk is one unit, as are the two halves of its backward.
    pub const UNIT: Self = Self { forward: 1, backward: 2, backward_input: 1, backward_weight: 1 };

    const fn of(self, kind: WorkKind) -> u64 {
        match kind {
            WorkKind::Forward => self.forward,
            WorkKind::Backward => self.backward,
            WorkKind::BackwardInput => self.backward_input,
            WorkKind::BackwardWeight => self.backward_weight,
        }
    }
}

/// A computation and when it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// What runs.
    pub work: Work,
    /// When it starts.
    pub start: u64,
    /// When it ends.
    pub end: u64,
}

/// When every computation of an order runs, each as early as it can.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeline {
    rows: Vec<Vec<Span>>,
}

/// An order whose computations wait for each other in a circle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the order never gets past {work} on rank {rank}: what it needs is never made")]
pub struct Stuck {
    /// A rank that is stuck.
    pub rank: Rank,
    /// The computation it is stuck at.
    pub work: Work,
}

impl Timeline {
    /// Plays an order out.
    ///
    /// # Errors
    /// [`Stuck`] when some computation can never start.
    pub fn new(order: &Order, costs: Costs) -> Result<Self, Stuck> {
        let extent = order.extent();
        let placement = extent.placement;
        let n_pairs = placement.n_stages() as usize * extent.microbatches as usize;
        let idx = |stage: crate::ids::Stage, microbatch: crate::ids::Microbatch| {
            stage.idx() * extent.microbatches as usize + microbatch.idx()
        };
        // When an activation or gradient for a stage is there, and when a stage's computation of a kind is done.
        let mut made: [Vec<Option<u64>>; 2] = [vec![None; n_pairs], vec![None; n_pairs]];
        let mut done: [Vec<Option<u64>>; 4] = std::array::from_fn(|_| vec![None; n_pairs]);
        let mut rows: Vec<Vec<Span>> = order.rows().iter().map(|row| Vec::with_capacity(row.len())).collect();
        let mut ready: Vec<usize> = (0..rows.len()).rev().collect();
        while let Some(rank) = ready.pop() {
            while let Some(&work) = order.rows()[rank].get(rows[rank].len()) {
                let input = match input_of(work, placement) {
                    None => Some(0),
                    Some(message) => made[message.direction as usize][idx(message.stage, message.microbatch)],
                };
                let state = match state_from(work.kind) {
                    None => Some(0),
                    Some(kind) => done[kind as usize][idx(work.stage, work.microbatch)],
                };
                let (Some(input), Some(state)) = (input, state) else { break };
                let free = rows[rank].last().map_or(0, |span| span.end);
                let start = free.max(input).max(state);
                let end = start + costs.of(work.kind);
                rows[rank].push(Span { work, start, end });
                done[work.kind as usize][idx(work.stage, work.microbatch)] = Some(end);
                if let Some(message) = output_of(work, placement) {
                    made[message.direction as usize][idx(message.stage, message.microbatch)] = Some(end);
                    let consumer = placement.rank_of(message.stage).idx();
                    if consumer != rank {
                        ready.push(consumer);
                    }
                }
            }
        }
        let stuck = rows.iter().zip(order.rows()).position(|(row, works)| row.len() < works.len());
        match stuck {
            None => Ok(Self { rows }),
            Some(rank) => Err(Stuck { rank: Rank(rank as u32), work: order.rows()[rank][rows[rank].len()] }),
        }
    }

    /// The spans of each rank, in turn.
    pub fn rows(&self) -> &[Vec<Span>] {
        &self.rows
    }

    /// When the last computation ends.
    pub fn makespan(&self) -> u64 {
        self.rows.iter().filter_map(|row| row.last()).map(|span| span.end).max().unwrap_or(0)
    }

    /// The share of all ranks' time, from 0 to the makespan, in which they compute nothing.
    pub fn bubble(&self) -> f64 {
        let busy: u64 = self.rows.iter().flatten().map(|span| span.end - span.start).sum();
        let all = self.makespan() * self.rows.len() as u64;
        if all == 0 { 0.0 } else { (all - busy) as f64 / all as f64 }
    }
}
