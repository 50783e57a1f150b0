//! What a trace recorded, and its steps as timelines.

use super::Extra;
use super::error::ChromeError;
use crate::deps::input_of;
use crate::ids::Rank;
use crate::order::{Extent, Order, OrderError};
use crate::simulate::{After, Scale, Span, Timeline};
use crate::work::{Work, WorkKind};

/// What was read from a trace. Times are in nanoseconds of the trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// For people: what was run.
    pub title: String,
    /// What it is over.
    pub extent: Extent,
    /// How nanoseconds are shown: in the unit of whoever wrote the trace.
    pub scale: Scale,
    /// The steps, ascending by number; at least one.
    pub steps: Vec<RecordedStep>,
    /// What else took time.
    pub extra: Vec<Extra>,
}

/// A step that was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedStep {
    /// Its number.
    pub number: u32,
    /// Where its time 0 is, in nanoseconds: as the trace has it, else where its first computation starts.
    pub start: u64,
    /// Its computations, by rank and then by time; no two of a rank overlap.
    pub spans: Vec<RecordedSpan>,
}

/// A computation that was recorded. Times in nanoseconds of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordedSpan {
    /// Where it ran.
    pub rank: Rank,
    /// What ran.
    pub work: Work,
    /// When it started.
    pub start: u64,
    /// When it ended.
    pub end: u64,
}

impl Recorded {
    /// The numbers of the steps, ascending.
    pub fn numbers(&self) -> Vec<u32> {
        self.steps.iter().map(|step| step.number).collect()
    }

    /// The same with only those steps for which `keep` says so, such as all but the first, which is often slower.
    ///
    /// # Errors
    /// [`ChromeError::Empty`] if none is left.
    pub fn only(self, keep: impl Fn(u32) -> bool) -> Result<Self, ChromeError> {
        let steps: Vec<_> = self.steps.into_iter().filter(|step| keep(step.number)).collect();
        let extra = self.extra.into_iter().filter(|extra| keep(extra.step)).collect();
        if steps.is_empty() { Err(ChromeError::Empty) } else { Ok(Self { steps, extra, ..self }) }
    }

    /// A step as a timeline in nanoseconds from the step's start. Why a computation started no earlier is told from what
    /// ended last before it: the one before it on its rank, or the one that made its input on another.
    ///
    /// # Errors
    /// [`ChromeError::NoSuchStep`]; [`ChromeError::Incomplete`] unless the step has every computation exactly once.
    pub fn timeline(&self, step: u32) -> Result<Timeline, ChromeError> {
        let recorded = self.step(step)?;
        let rows = rows(self.extent, recorded)?;
        let flat = |rows: &[Vec<Span>]| rows.iter().map(|row| row.iter().map(|span| span.work).collect()).collect();
        Order::new(self.extent, flat(&rows)).map_err(|source| ChromeError::Incomplete { step, source })?;
        Ok(Timeline::measured(self.extent, explain(self.extent, rows)))
    }

    /// The order in which a step's computations ran.
    ///
    /// # Errors
    /// As [`Recorded::timeline`].
    pub fn order(&self, step: u32) -> Result<Order, ChromeError> {
        let rows = rows(self.extent, self.step(step)?)?;
        let works = rows.iter().map(|row| row.iter().map(|span| span.work).collect()).collect();
        Order::new(self.extent, works).map_err(|source| ChromeError::Incomplete { step, source })
    }

    fn step(&self, step: u32) -> Result<&RecordedStep, ChromeError> {
        let found = self.steps.iter().find(|recorded| recorded.number == step);
        found.ok_or_else(|| ChromeError::NoSuchStep { step, known: self.numbers() })
    }
}

/// The spans by rank, from the step's start on.
fn rows(extent: Extent, recorded: &RecordedStep) -> Result<Vec<Vec<Span>>, ChromeError> {
    let n_ranks = extent.placement.n_ranks() as usize;
    let ranks: Vec<&[RecordedSpan]> = recorded.spans.chunk_by(|one, other| one.rank == other.rank).collect();
    // Before anything of the extent's size is allocated.
    if ranks.len() != n_ranks {
        let source = OrderError::Ranks { given: ranks.len(), expected: n_ranks };
        return Err(ChromeError::Incomplete { step: recorded.number, source });
    }
    let from = |time: u64| time - recorded.start;
    let span = |span: &RecordedSpan| Span {
        work: span.work,
        start: from(span.start),
        end: from(span.end),
        after: After::Nothing,
    };
    Ok(ranks.into_iter().map(|spans| spans.iter().map(span).collect()).collect())
}

/// Says for each span what it started after.
fn explain(extent: Extent, mut rows: Vec<Vec<Span>>) -> Vec<Vec<Span>> {
    let placement = extent.placement;
    let microbatches = extent.microbatches as usize;
    let idx = |work: Work| work.stage.idx() * microbatches + work.microbatch.idx();
    // By forward or backward: when it ran, and where.
    let mut made = [0, 1].map(|_| vec![None; placement.n_stages() as usize * microbatches]);
    let side = |work: Work| usize::from(work.kind != WorkKind::Forward);
    for (rank, row) in (0..).map(Rank).zip(&rows) {
        for (index, span) in (0..).zip(row) {
            if span.work.kind != WorkKind::BackwardWeight {
                made[side(span.work)][idx(span.work)] = Some((span.start, span.end, rank, index));
            }
        }
    }
    for (rank, row) in (0..).map(Rank).zip(&mut rows) {
        let mut previous = None;
        for span in row {
            let message = input_of(span.work, placement);
            let maker = message.map(|message| Work { stage: message.made_by(), ..span.work });
            // A maker that ends after its consumer starts is one whose clock is ahead: nothing is told by it. And each one
            // starts before its consumer, for no chain to end where it began, not even one of computations without length.
            let maker = maker
                .and_then(|work| made[side(work)][idx(work)])
                .filter(|&(start, end, other, _)| other != rank && start < span.start && end <= span.start);
            span.after = match (previous, maker) {
                (Some(previous), Some((_, end, ..))) if end <= previous => After::Previous,
                (_, Some((.., rank, index))) => After::Other { rank, index },
                (Some(_), None) => After::Previous,
                (None, None) => After::Nothing,
            };
            previous = Some(span.end);
        }
    }
    rows
}
