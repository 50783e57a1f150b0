//! What a rank keeps of its steps, and how it is told to the others.

use std::collections::VecDeque;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use pp_comm::{Control, Did, Recording};
use pp_schedule::Placement;

use super::{KINDS, Measured};
use crate::clock::Clock;

/// Of how many steps a rank keeps figures, so that no run is too long to be kept.
pub(super) const MAX_STEPS: usize = 512;

/// Seconds of one chunk in one step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct ChunkTimes {
    /// By kind: how many computations, and how long they took together.
    kinds: [(f64, f64); 4],
    /// Waiting for what it consumes to come and what it made to leave.
    pub(super) wait: f64,
}

impl ChunkTimes {
    pub(super) fn busy(&self) -> f64 {
        self.kinds.iter().map(|(_, seconds)| seconds).sum()
    }

    /// The mean of a kind; none where there is no such computation.
    pub(super) fn mean(&self, kind: usize) -> Option<f64> {
        let (count, seconds) = self.kinds[kind];
        (count > 0.0).then(|| seconds / count)
    }
}

/// Seconds of one rank in one step, by the machine's clock.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Step {
    /// When its first computation starts.
    pub(super) first: f64,
    /// When its last computation ends.
    pub(super) last: f64,
    pub(super) chunks: Vec<ChunkTimes>,
}

impl Step {
    fn of(recording: &Recording, clock: Clock, placement: Placement) -> Self {
        let began = clock.time_of(recording.began());
        let at = |time: Duration| (began + time).as_secs_f64();
        let mut step = Self { chunks: vec![ChunkTimes::default(); placement.n_chunks() as usize], ..Self::default() };
        let mut is_first = true;
        for span in recording.spans() {
            let seconds = (span.end - span.start).as_secs_f64();
            let chunk = |stage| placement.chunk_of(stage).idx();
            match span.did {
                Did::Compute(work) => {
                    if std::mem::take(&mut is_first) {
                        step.first = at(span.start);
                    }
                    step.last = at(span.end);
                    let kind = KINDS.iter().position(|&kind| kind == work.kind).unwrap_or_default();
                    let (count, sum) = &mut step.chunks[chunk(work.stage)].kinds[kind];
                    (*count, *sum) = (*count + 1.0, *sum + seconds);
                }
                Did::WaitReceive(message, _) => step.chunks[chunk(message.stage)].wait += seconds,
                Did::WaitSend(message, _) => step.chunks[chunk(message.made_by())].wait += seconds,
            }
        }
        step
    }

    pub(super) fn busy(&self) -> f64 {
        self.chunks.iter().map(ChunkTimes::busy).sum()
    }

    fn numbers(&self) -> impl Iterator<Item = f64> {
        let of_chunk = |chunk: &ChunkTimes| {
            let kinds = chunk.kinds.into_iter().flat_map(|(count, seconds)| [count, seconds]);
            kinds.chain([chunk.wait]).collect::<Vec<_>>()
        };
        [self.first, self.last].into_iter().chain(self.chunks.iter().flat_map(of_chunk))
    }

    pub(super) fn of_numbers(numbers: &[f64]) -> Option<Self> {
        let (&[first, last], rest) = numbers.split_first_chunk()?;
        let (chunks, []) = rest.as_chunks::<9>() else { return None };
        let of_chunk = |n: &[f64; 9]| ChunkTimes { kinds: [0, 2, 4, 6].map(|at| (n[at], n[at + 1])), wait: n[8] };
        Some(Self { first, last, chunks: chunks.iter().map(of_chunk).collect() })
    }
}

/// The steps that a rank has kept: the last ones, without the first of the run if there are others.
#[derive(Debug)]
pub(crate) struct KeptSteps {
    clock: Clock,
    placement: Placement,
    steps: VecDeque<Step>,
    n_seen: u64,
}

impl KeptSteps {
    pub(crate) fn new(clock: Clock, placement: Placement) -> Self {
        Self { clock, placement, steps: VecDeque::new(), n_seen: 0 }
    }

    pub(crate) fn add(&mut self, recording: &Recording) {
        // Memory is touched for the first time in the first step.
        if self.n_seen == 1 || self.steps.len() == MAX_STEPS {
            self.steps.pop_front();
        }
        self.steps.push_back(Step::of(recording, self.clock, self.placement));
        self.n_seen += 1;
    }

    /// Tells all ranks all of it; every rank gets the same.
    pub(crate) fn gather(&self, control: &mut Control) -> Result<Measured> {
        let len = 2 + 9 * self.placement.n_chunks() as usize;
        let mine: Vec<f64> = self.steps.iter().flat_map(Step::numbers).collect();
        let parts = control.all_gather_f64(&mine)?;
        let of_rank = |part: &Vec<f64>| part.chunks(len).map(Step::of_numbers).collect::<Option<Vec<_>>>();
        let ranks: Option<Vec<_>> = parts.iter().map(of_rank).collect();
        let ranks = ranks.context("a rank's part of the steps' times is no list of such")?;
        let is_whole = ranks.iter().flatten().all(|step| step.chunks.len() == self.placement.n_chunks() as usize);
        ensure!(
            is_whole && ranks.len() == self.placement.n_ranks() as usize,
            "a rank's part of the steps' times is cut off"
        );
        Ok(Measured::of(&ranks, self.placement))
    }
}
