//! What a picture shows, whatever it is drawn with: text, SVG, HTML.

pub(super) mod axis;
pub(crate) mod numbers;
pub(super) mod short;
pub(super) mod wait;

use crate::ids::{Rank, Stage};
use crate::order::Order;
use crate::quantity::Bytes;
use crate::simulate::{Level, Report, Scale, StageBytes, Timeline, levels};
use crate::work::WorkKind;

/// A timeline with everything that stands around it. Times are in ticks, and shown in the scale's unit.
#[derive(Clone, Debug)]
pub struct Picture<'a> {
    /// What it is a picture of, such as `1f1b over 4 ranks, 8 microbatches`.
    pub title: String,
    /// What runs when.
    pub timeline: &'a Timeline,
    /// Its figures.
    pub report: &'a Report,
    /// How ticks are shown.
    pub scale: &'a Scale,
    /// By rank: what it holds, by time ([`levels`]).
    pub levels: Vec<Vec<Level>>,
    /// Whether the bytes in `levels` and `report` are known; without, memory is shown as a count.
    pub bytes_known: bool,
    /// By rank, ascending: the numbers of the forwards that overlap with the backward after them ([`Order::pairs`]).
    pub pairs: Vec<Vec<u32>>,
    /// Figures in closed form, a line each, shown beside the simulated ones.
    pub closed_form: Vec<String>,
    /// Whatever else a reader should know, a line each.
    pub notes: Vec<String>,
}

/// A figure and its name, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figure {
    /// What it is.
    pub name: &'static str,
    /// How much, with its unit.
    pub value: String,
}

impl<'a> Picture<'a> {
    /// A picture without overlapped pairs and bytes: memory is counted in microbatches of one chunk.
    pub fn new(title: impl Into<String>, timeline: &'a Timeline, report: &'a Report, scale: &'a Scale) -> Self {
        let (closed_form, notes) = (Vec::new(), Vec::new());
        let pairs = vec![Vec::new(); timeline.rows().len()];
        let levels = levels_of(timeline, |_| StageBytes::default());
        Self { title: title.into(), timeline, report, scale, levels, bytes_known: false, pairs, closed_form, notes }
    }

    /// The same with memory in bytes. The report has to have been made with the same bytes.
    #[must_use]
    pub fn with_bytes(self, bytes: impl Fn(Stage) -> StageBytes) -> Self {
        Self { levels: levels_of(self.timeline, bytes), bytes_known: true, ..self }
    }

    /// The same with the overlapped pairs of the order that was played out.
    #[must_use]
    pub fn with_pairs(self, order: &Order) -> Self {
        let pairs = (0..order.rows().len() as u32).map(|rank| order.pairs(Rank(rank)).to_vec());
        Self { pairs: pairs.collect(), ..self }
    }

    /// The same with figures in closed form, a line each.
    #[must_use]
    pub fn with_closed_form(self, closed_form: Vec<String>) -> Self {
        Self { closed_form, ..self }
    }

    /// The same with notes, a line each.
    #[must_use]
    pub fn with_notes(self, notes: Vec<String>) -> Self {
        Self { notes, ..self }
    }

    /// A time in the picture's unit, such as `28.5 units`.
    pub fn time(&self, ticks: u64) -> String {
        format!("{} {}", self.number(ticks), self.scale.unit)
    }

    /// The number alone.
    pub fn number(&self, ticks: u64) -> String {
        numbers::short(self.scale.of(ticks))
    }

    /// The figures that stand at the head of a picture: step time, both bubbles, memory.
    pub fn figures(&self) -> Vec<Figure> {
        let report = self.report;
        let figure = |name, value| Figure { name, value };
        let mut figures = vec![
            figure("makespan", self.time(report.makespan)),
            figure("longest stage", self.time(report.longest_stage)),
            figure("bubble, of the makespan", numbers::percent(report.bubble)),
            figure("bubble, of the longest stage", numbers::percent(report.longest_stage_bubble)),
        ];
        figures.extend(self.peak());
        figures
    }

    /// The rank that holds most, and how much; `None` for forwards only.
    fn peak(&self) -> Option<Figure> {
        if self.timeline.extent().forward_only {
            return None;
        }
        let size =
            |rank: usize| if self.bytes_known { self.peak_bytes(rank) } else { u64::from(self.peak_saved(rank)) };
        let most = (0..self.levels.len()).max_by_key(|&rank| (size(rank), std::cmp::Reverse(rank)))?;
        let value = format!("{}, rank {most}", self.amount(size(most)));
        Some(Figure { name: if self.bytes_known { "peak memory" } else { "peak microbatches saved" }, value })
    }

    /// An amount of memory as it is shown: bytes, or a count.
    pub(super) fn amount(&self, amount: u64) -> String {
        if self.bytes_known { Bytes(amount).to_string() } else { amount.to_string() }
    }

    /// How much a level is, in what memory is shown in.
    pub(super) const fn size_of(&self, level: &Level) -> u64 {
        if self.bytes_known { level.bytes } else { level.in_flight as u64 + level.deferred as u64 }
    }

    fn peak_bytes(&self, rank: usize) -> u64 {
        self.levels[rank].iter().map(|level| level.bytes).max().unwrap_or(0)
    }

    fn peak_saved(&self, rank: usize) -> u32 {
        self.levels[rank].iter().map(|level| level.in_flight + level.deferred).max().unwrap_or(0)
    }

    /// Whether anything of a kind is computed.
    pub(super) fn has(&self, kind: WorkKind) -> bool {
        self.timeline.rows().iter().flatten().any(|span| span.work.kind == kind)
    }

    /// Whether any computations overlap.
    pub(super) fn has_pairs(&self) -> bool {
        self.pairs.iter().any(|pairs| !pairs.is_empty())
    }
}

fn levels_of(timeline: &Timeline, bytes: impl Fn(Stage) -> StageBytes) -> Vec<Vec<Level>> {
    let forward_only = timeline.extent().forward_only;
    timeline.rows().iter().map(|row| levels(row, forward_only, &bytes)).collect()
}
