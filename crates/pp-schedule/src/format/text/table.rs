//! Every computation as its token, in columns of equal time: exact, for times that are small multiples of one.

use super::line::{Line, paint, times};
use super::{Style, is_short, margin, time};
use crate::format::palette;
use crate::simulate::{Span, Timeline};

/// The most columns that a computation takes, in the mean, if the table takes more than one panel.
const MOST_COLUMNS: u64 = 4;

/// A drawing's measures, in characters.
struct Table<'a> {
    timeline: &'a Timeline,
    style: Style<'a>,
    margin: usize,
    cell: usize,
    /// Ticks of a column.
    column: u64,
}

/// Draws it; `None` if that takes too many lines.
pub(super) fn draw(timeline: &Timeline, style: Style<'_>) -> Option<String> {
    let rows = timeline.rows();
    // Every computation starts and ends between two columns.
    let column = rows.iter().flatten().fold(0, |column, span| gcd(gcd(column, span.start), span.end)).max(1);
    let tokens = rows.iter().flatten().map(|span| span.work.to_string().len());
    // Times in ticks stand above every column; others, which may be long, above every so many.
    let last = if style.scale.is_none() && column == 1 { timeline.makespan().to_string().len() } else { 1 };
    let cell = tokens.max().unwrap_or(1).max(last) + 1;
    let margin = margin(rows.len());
    let n_columns = timeline.makespan() / column;
    let per_panel = (style.width.saturating_sub(margin) / cell) as u64;
    let n_panels = n_columns.checked_div(per_panel)? + 1;
    // Computations of many columns each are dashes for the most part, and say no more than one character per so much time.
    let n_spans = rows.iter().map(Vec::len).sum::<usize>() as u64;
    let is_drawn_out = n_panels > 1 && timeline.busy() / column > MOST_COLUMNS * n_spans;
    if is_drawn_out || !is_short(usize::try_from(n_panels).ok()?, rows.len()) {
        return None;
    }
    let table = Table { timeline, style, margin, cell, column };
    let mut text = String::new();
    let mut start = 0;
    while start < n_columns {
        let end = (start + per_panel).min(n_columns);
        if start > 0 {
            text.push('\n');
        }
        table.panel(&mut text, start..end);
        start = end;
    }
    Some(text)
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

impl Table<'_> {
    fn panel(&self, text: &mut String, columns: std::ops::Range<u64>) {
        let at = |column: u64| self.margin + (column - columns.start) as usize * self.cell;
        let label = |column: u64| time(column * self.column, self.style.scale);
        // Labels that are too long for their column stand above every second one, or third.
        let longest = columns.clone().map(|column| label(column).len()).max().unwrap_or(0);
        let every = (longest + 1).div_ceil(self.cell) as u64;
        let labels = columns.clone().filter(|column| column % every == 0).map(|column| (at(column), label(column)));
        times("time", self.margin, labels, self.style.width).push_to(text);
        for (rank, row) in self.timeline.rows().iter().enumerate() {
            let mut line = Line::new(&format!("rank {rank}"), self.margin);
            let first = row.partition_point(|span| span.end <= columns.start * self.column);
            let mut spans = row[first..].iter().peekable();
            for column in columns.clone() {
                let start = column * self.column;
                while spans.next_if(|span| span.end <= start).is_some() {}
                match spans.peek() {
                    Some(span) if span.start <= start => {
                        self.cell(&mut line, at(column), start, span, column + 1 < columns.end)
                    }
                    _ => line.put(at(column), ".", None),
                }
            }
            line.push_to(text);
        }
    }

    /// A column of a computation: its token, or that it goes on.
    fn cell(&self, line: &mut Line, at: usize, start: u64, span: &Span, is_followed: bool) {
        let placement = self.timeline.extent().placement;
        let n_chunks = placement.n_chunks();
        let shade = palette::shade_of(placement.chunk_of(span.work.stage).0, n_chunks);
        let paint = self.style.colour.then(|| paint(span.work.kind, shade, palette::n_shades(n_chunks)));
        let width = self.cell - 1;
        let token = if span.start == start { span.work.to_string() } else { "-".repeat(width) };
        match paint {
            None => line.put(at, &token, None),
            Some(_) => {
                line.put(at, &format!("{token:<width$}"), paint);
                if is_followed && span.end > start + self.column {
                    line.put(at + width, " ", paint);
                }
            }
        }
    }
}
