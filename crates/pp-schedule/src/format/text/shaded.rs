//! How busy ranks are, in one panel: for timelines of which no single computation can be shown.

use super::line::{Line, times};
use super::{MAX_ROWS, Style, or_ticks};
use crate::format::picture::{axis, numbers};
use crate::simulate::{Span, Timeline};

/// From idle to busy.
const SHADES: [char; 10] = [' ', '.', ':', '-', '=', '+', '*', '#', '%', '@'];

/// Draws it: a row per rank, or per group of neighbours if there are many.
pub(super) fn draw(timeline: &Timeline, style: Style<'_>) -> String {
    let rows = timeline.rows();
    let group = rows.len().div_ceil(MAX_ROWS).max(1);
    let name = |first: usize, last: usize| {
        if first == last { format!("rank {first}") } else { format!("ranks {first}-{last}") }
    };
    let groups = rows.chunks(group).enumerate();
    let groups: Vec<(String, &[Vec<Span>])> =
        groups.map(|(number, rows)| (name(number * group, number * group + rows.len() - 1), rows)).collect();
    let margin = groups.iter().map(|(name, _)| name.len()).max().unwrap_or(4) + 1;
    let columns = style.width.saturating_sub(margin).max(1);
    let per_character = (timeline.makespan() as f64 / columns as f64).max(f64::MIN_POSITIVE);
    let mut text = String::new();
    let scale = or_ticks(style.scale);
    let labels = axis::ticks(scale.of(timeline.makespan()), columns / 10)
        .into_iter()
        .map(|time| (margin + (time * scale.ticks_per_unit / per_character).round() as usize, numbers::short(time)));
    times("time", margin, labels, style.width).push_to(&mut text);
    for (name, rows) in groups {
        let mut line = Line::new(&name, margin);
        line.put(margin, &shades(rows, per_character, columns), None);
        line.push_to(&mut text);
    }
    let one = numbers::short(per_character / scale.ticks_per_unit);
    for legend in
        [format!("one character is {one} {}", scale.unit), format!("idle \"{}\" busy", String::from_iter(SHADES))]
    {
        text.extend(legend.chars().take(style.width));
        text.push('\n');
    }
    text
}

/// A shade for each character's time: the share of it in which the rows compute.
fn shades(rows: &[Vec<Span>], per_character: f64, columns: usize) -> String {
    let mut busy = vec![0.0; columns];
    for span in rows.iter().flatten() {
        let (start, end) = (span.start as f64 / per_character, span.end as f64 / per_character);
        let last = (end.ceil() as usize).min(columns);
        for (character, busy) in busy.iter_mut().enumerate().take(last).skip(start as usize) {
            *busy += end.min(character as f64 + 1.0) - start.max(character as f64);
        }
    }
    let shade = |busy: f64| {
        let share = busy / rows.len().max(1) as f64;
        SHADES[((share * (SHADES.len() - 1) as f64).round() as usize).min(SHADES.len() - 1)]
    };
    busy.into_iter().map(shade).collect()
}
