//! How large everything is.

use super::pen::text_width;
use crate::format::picture::Picture;
use crate::format::picture::short::short_span;
use crate::simulate::Span;
use crate::work::Work;

/// Space around the image.
pub(super) const MARGIN: f64 = 20.0;

const MIN_WIDTH: f64 = 480.0;
/// The widest and the narrowest timeline that is drawn if nobody says how wide, in pixels.
const PLOT_WIDTHS: (f64, f64) = (820.0, 3700.0);
/// How wide a short computation should be at least.
const BOX_WIDTH: f64 = 14.0;

/// Beyond so many computations boxes are no elements of their own: their details are left out, and the image stays of a
/// size that browsers show.
const MAX_BOXES: usize = 24_000;

/// What stands in boxes where it fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Label {
    /// The whole token.
    Token,
    /// The microbatch.
    Microbatch,
}

/// Sizes, in pixels.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub(super) width: f64,
    /// Where time 0 is.
    pub(super) left: f64,
    /// How long the time axis is.
    pub(super) plot: f64,
    pub(super) per_tick: f64,
    pub(super) row: f64,
    pub(super) row_gap: f64,
    pub(super) memory: f64,
    pub(super) memory_gap: f64,
    /// Of the letters beside rows.
    pub(super) row_font: f64,
    /// Of the letters in boxes.
    pub(super) box_font: f64,
    pub(super) label: Option<Label>,
    /// Whether each box is an element of its own, with its details.
    pub(super) details: bool,
}

impl Shape {
    pub(super) fn new(picture: &Picture<'_>, width: Option<u32>) -> Self {
        let rows = picture.timeline.rows();
        let n_ranks = rows.len();
        let (row, row_gap, memory, memory_gap) = match n_ranks {
            0..=8 => (24.0, 4.0, 26.0, 5.0),
            9..=16 => (20.0, 3.0, 19.0, 4.0),
            17..=32 => (15.0, 2.0, 13.0, 2.0),
            33..=64 => (12.0, 1.5, 9.0, 1.5),
            65..=128 => (8.0, 1.0, 6.0, 1.0),
            _ => (5.0, 0.5, 3.5, 0.5),
        };
        let row_font: f64 = (row * 0.75_f64).clamp(8.0, 12.0);
        let rank_digits = n_ranks.saturating_sub(1).to_string().len();
        let left = MARGIN + text_width(5 + rank_digits, row_font) + 6.0;
        let right = MARGIN + text_width(11, row_font);
        let makespan = picture.timeline.makespan().max(1) as f64;
        let box_font = (row * 0.46_f64).clamp(7.5, 11.0);
        let digits = picture.timeline.extent().microbatches.saturating_sub(1).to_string().len();
        let short_box = BOX_WIDTH.max(text_width(digits, box_font) + 3.5);
        let plot = match width {
            Some(width) => f64::from(width).max(MIN_WIDTH) - left - right,
            None => (makespan / short_span(rows).unwrap_or(1.0) * short_box).clamp(PLOT_WIDTHS.0, PLOT_WIDTHS.1),
        };
        let width = (left + plot + right).ceil();
        let plot = width - left - right;
        let per_tick = plot / makespan;
        let label = label(rows, per_tick, box_font);
        let details = rows.iter().map(Vec::len).sum::<usize>() <= MAX_BOXES;
        Self { width, left, plot, per_tick, row, row_gap, memory, memory_gap, row_font, box_font, label, details }
    }

    /// How far from time 0 a time is.
    pub(super) fn x(&self, ticks: u64) -> f64 {
        ticks as f64 * self.per_tick
    }

    /// What stands in a box, if it fits: rows lower than a letter have none.
    pub(super) fn label_of(&self, work: Work, width: f64) -> Option<String> {
        let text = match self.label? {
            Label::Token => work.to_string(),
            Label::Microbatch => work.microbatch.to_string(),
        };
        (self.row >= 10.0 && fits(text.len(), self.box_font, width)).then_some(text)
    }

    /// Which ranks have their number beside their row: every so many.
    pub(super) fn label_every(&self, row: f64) -> usize {
        (self.row_font * 1.05 / row).ceil().max(1.0) as usize
    }
}

fn fits(n_chars: usize, font: f64, width: f64) -> bool {
    text_width(n_chars, font) + 2.4 <= width
}

/// Whole tokens where they fit nine of ten boxes, else microbatches: mixed they are hard to read. Nothing where even those
/// fit few boxes.
fn label(rows: &[Vec<Span>], per_tick: f64, font: f64) -> Option<Label> {
    let (mut tokens, mut microbatches, mut n_spans) = (0, 0, 0);
    for span in rows.iter().flatten() {
        let width = (span.end - span.start) as f64 * per_tick;
        tokens += usize::from(fits(span.work.to_string().len(), font, width - 4.0));
        microbatches += usize::from(fits(span.work.microbatch.to_string().len(), font, width));
        n_spans += 1;
    }
    if tokens * 10 >= n_spans * 9 {
        return Some(Label::Token);
    }
    (microbatches * 4 >= n_spans).then_some(Label::Microbatch)
}
