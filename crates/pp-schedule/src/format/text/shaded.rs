//! How busy ranks are, in one panel: for timelines of which no single computation can be shown.

use super::line::{Line, paint, times};
use super::{MAX_ROWS, Style, or_ticks};
use crate::format::picture::{axis, numbers};
use crate::simulate::{Span, Timeline};
use crate::work::WorkKind;

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
        for (at, Load { share, kind }) in loads(rows, per_character, columns).into_iter().enumerate() {
            let paint = (style.colour && share > 0.02).then(|| paint(kind, 0, 1));
            line.put(margin + at, shade(share).encode_utf8(&mut [0; 4]), paint);
        }
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

/// What ranks do in a character's time.
struct Load {
    /// The share of it in which they compute.
    share: f64,
    /// The kind that takes most of that.
    kind: WorkKind,
}

fn loads(rows: &[Vec<Span>], per_character: f64, columns: usize) -> Vec<Load> {
    let mut busy = vec![[0.0; WorkKind::ALL.len()]; columns];
    for span in rows.iter().flatten() {
        let (start, end) = (span.start as f64 / per_character, span.end as f64 / per_character);
        let last = (end.ceil() as usize).min(columns);
        for (character, busy) in busy.iter_mut().enumerate().take(last).skip(start as usize) {
            busy[span.work.kind as usize] += end.min(character as f64 + 1.0) - start.max(character as f64);
        }
    }
    let load = |busy: [f64; 4]| {
        let most = |one: &WorkKind, other: &WorkKind| busy[*one as usize].total_cmp(&busy[*other as usize]);
        let kind = WorkKind::ALL.into_iter().max_by(most).unwrap_or(WorkKind::Forward);
        Load { share: busy.iter().sum::<f64>() / rows.len().max(1) as f64, kind }
    };
    busy.into_iter().map(load).collect()
}

fn shade(share: f64) -> char {
    SHADES[((share * (SHADES.len() - 1) as f64).round() as usize).min(SHADES.len() - 1)]
}
