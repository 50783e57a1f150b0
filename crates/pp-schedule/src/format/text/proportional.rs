//! Computations as long as their time, for costs of any size.

use super::line::{Line, paint, times};
use super::{Style, is_short, margin, or_ticks};
use crate::format::palette;
use crate::format::picture::short::short_span;
use crate::format::picture::{axis, numbers};
use crate::simulate::{Span, Timeline};
use crate::work::Work;

/// What stands of a computation.
#[derive(Clone, Copy, Debug)]
enum Label {
    /// `2F0`.
    Token,
    /// `F0`: which stage is known by the rank, if that has one chunk.
    Microbatch,
    /// `F`.
    Kind,
}

/// Draws it; `None` if that takes too many lines, or many computations were shorter than a character.
pub(super) fn draw(timeline: &Timeline, style: Style<'_>) -> Option<String> {
    let rows = timeline.rows();
    let margin = margin(rows.len());
    let columns = style.width - margin;
    let short = short_span(rows)?;
    let n_chunks = timeline.extent().placement.n_chunks();
    let labels: &[Label] =
        if n_chunks == 1 { &[Label::Microbatch, Label::Kind] } else { &[Label::Token, Label::Microbatch, Label::Kind] };
    let (label, n_panels) = labels.iter().find_map(|&label| {
        let longest = rows.iter().flatten().map(|span| text_of(label, span.work).len()).max()?;
        // Of times that fit no memory there are none: both factors are characters or ticks of one timeline.
        let needed = timeline.makespan() as f64 / short * longest as f64;
        let n_panels = (needed / columns as f64).ceil().max(1.0) as usize;
        is_short(n_panels, rows.len()).then_some((label, n_panels))
    })?;
    let per_character = timeline.makespan() as f64 / (n_panels * columns) as f64;
    let drawing = Drawing { timeline, style, margin, columns, per_character, label };
    let mut text = String::new();
    for panel in 0..n_panels {
        if panel > 0 {
            text.push('\n');
        }
        drawing.panel(&mut text, panel * columns);
    }
    let scale = or_ticks(style.scale);
    let one = numbers::short(per_character / scale.ticks_per_unit);
    let legend: String = format!("one character is {one} {}", scale.unit).chars().take(style.width).collect();
    text.push_str(&legend);
    text.push('\n');
    Some(text)
}

fn text_of(label: Label, work: Work) -> String {
    let kind = work.kind.letter();
    match label {
        Label::Token => work.to_string(),
        Label::Microbatch => format!("{kind}{}", work.microbatch),
        Label::Kind => kind.to_string(),
    }
}

struct Drawing<'a> {
    timeline: &'a Timeline,
    style: Style<'a>,
    margin: usize,
    columns: usize,
    per_character: f64,
    label: Label,
}

impl Drawing<'_> {
    /// Which character, counted from time 0, a time is at.
    fn character(&self, ticks: u64) -> usize {
        (ticks as f64 / self.per_character).round() as usize
    }

    /// The panel that begins with a character.
    fn panel(&self, text: &mut String, begin: usize) {
        self.times(begin).push_to(text);
        for (rank, row) in self.timeline.rows().iter().enumerate() {
            let mut line = Line::new(&format!("rank {rank}"), self.margin);
            line.put(self.margin, &".".repeat(self.columns), None);
            let first = row.partition_point(|span| self.character(span.end) < begin);
            for span in row[first..].iter().take_while(|span| self.character(span.start) < begin + self.columns) {
                self.span(&mut line, begin, span);
            }
            line.push_to(text);
        }
    }

    fn times(&self, begin: usize) -> Line {
        let scale = or_ticks(self.style.scale);
        let makespan = scale.of(self.timeline.makespan());
        let n_characters = makespan * scale.ticks_per_unit / self.per_character;
        let labels = axis::ticks(makespan, (n_characters / 10.0) as usize).into_iter().filter_map(|time| {
            let character = (time * scale.ticks_per_unit / self.per_character).round() as usize;
            Some((self.margin + character.checked_sub(begin)?, numbers::short(time)))
        });
        times("time", self.margin, labels, self.style.width)
    }

    /// The part of a computation that is in the panel.
    fn span(&self, line: &mut Line, begin: usize, span: &Span) {
        let placement = self.timeline.extent().placement;
        let n_chunks = placement.n_chunks();
        let shade = palette::shade_of(placement.chunk_of(span.work.stage).0, n_chunks);
        let paint = self.style.colour.then(|| paint(span.work.kind, shade, palette::n_shades(n_chunks)));
        let (start, end) = (self.character(span.start), self.character(span.end));
        let label = text_of(self.label, span.work);
        let label = if label.len() <= end - start { label } else { text_of(Label::Kind, span.work) };
        let all: String = label.chars().chain(std::iter::repeat('-')).take(end - start).collect();
        let visible = begin.max(start)..end.min(begin + self.columns);
        if visible.start < visible.end {
            let part = &all[visible.start - start..visible.end - start];
            line.put(self.margin + visible.start - begin, part, paint);
        }
    }
}
