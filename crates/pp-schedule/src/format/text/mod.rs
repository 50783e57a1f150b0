//! The timeline as text: a row per rank, a column per unit of time, cut into panels that fit a width.

use std::fmt::Write as _;

use crate::simulate::{Span, Timeline};

/// The narrowest width a drawing fits into, in characters.
const MIN_WIDTH: usize = 40;

/// Draws a timeline. Each computation stands as its token (`2F0`: stage, kind, microbatch) where it starts; `-` goes on
/// for as long as it takes, and `.` is a rank that waits.
///
/// ```
/// use pp_schedule::simulate::{Costs, Timeline};
/// use pp_schedule::{Order, ScheduleConfig, ScheduleSpec, format::text};
/// let order = Order::generate(&ScheduleConfig::new(&ScheduleSpec::new(2, 1, 2)).unwrap());
/// let timeline = Timeline::of_order(&order, &Costs::UNIT).unwrap();
/// assert_eq!(
///     text::draw(&timeline, 80),
///     "time   0   1   2   3   4   5   6   7   8\n\
///      rank 0 0F0 0F1 .   .   0B0 --- .   0B1 ---\n\
///      rank 1 .   1F0 1B0 --- 1F1 1B1 --- .   .\n"
/// );
/// ```
pub fn draw(timeline: &Timeline, width: usize) -> String {
    let rows = timeline.rows();
    let tokens = rows.iter().flatten().map(|span| span.work.to_string().len());
    let cell = tokens.max().unwrap_or(1).max(timeline.makespan().to_string().len()) + 1;
    let margin = format!("rank {} ", rows.len().saturating_sub(1)).len();
    let columns = (width.max(MIN_WIDTH).saturating_sub(margin) / cell).max(1) as u64;
    let mut text = String::new();
    let mut start = 0;
    while start < timeline.makespan() {
        let end = (start + columns).min(timeline.makespan());
        if start > 0 {
            text.push('\n');
        }
        panel(&mut text, rows, start..end, margin, cell);
        start = end;
    }
    text
}

fn panel(text: &mut String, rows: &[Vec<Span>], units: std::ops::Range<u64>, margin: usize, cell: usize) {
    let times = units.clone().map(|unit| unit.to_string());
    line(text, &format!("{:<margin$}", "time"), times, cell);
    for (rank, row) in rows.iter().enumerate() {
        let first = row.partition_point(|span| span.end <= units.start);
        let mut spans = row[first..].iter().peekable();
        let cells = units.clone().map(|unit| {
            while spans.next_if(|span| span.end <= unit).is_some() {}
            match spans.peek() {
                Some(span) if span.start == unit => span.work.to_string(),
                Some(span) if span.start < unit => "-".repeat(cell - 1),
                _ => ".".to_owned(),
            }
        });
        line(text, &format!("{:<margin$}", format!("rank {rank}")), cells, cell);
    }
}

fn line(text: &mut String, head: &str, cells: impl Iterator<Item = String>, cell: usize) {
    let mut line = head.to_owned();
    for item in cells {
        // Writing to a string cannot fail.
        let _ = write!(line, "{item:<cell$}");
    }
    text.push_str(line.trim_end());
    text.push('\n');
}
