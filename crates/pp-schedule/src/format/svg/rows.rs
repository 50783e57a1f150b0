//! The timeline: a row per rank under an axis of time.

use std::fmt::Write as _;

use super::boxes;
use super::pen::{Px, text};
use super::shape::Shape;
use crate::format::picture::{Picture, axis, numbers};

/// Space for the numbers of an axis.
const AXIS: f64 = 20.0;

/// Draws it below `y`; returns where it ends.
pub(super) fn draw(out: &mut String, picture: &Picture<'_>, shape: &Shape, y: f64) -> f64 {
    let rows = picture.timeline.rows();
    let top = y + AXIS;
    let step = shape.row + shape.row_gap;
    let bottom = top + rows.len() as f64 * step;
    grid(out, picture, shape, (top - 4.0, bottom));
    numbers(out, picture, shape, top - 8.0);
    for (rank, row) in rows.iter().enumerate() {
        let y = top + rank as f64 * step;
        let base = y + shape.row / 2.0 + shape.row_font * 0.36;
        if rank % shape.label_every(step) == 0 {
            text(out, "rank", (shape.left - 8.0, base), &format!("rank {rank}"));
            let busy: u64 = row.iter().map(|span| span.end - span.start).sum();
            let share = numbers::percent(busy as f64 / picture.timeline.makespan().max(1) as f64);
            text(out, "side", (shape.left + shape.plot + 8.0, base), &format!("busy {share}"));
        }
        // Writing to a string cannot fail.
        let _ = writeln!(out, "<g transform=\"translate({} {})\">", Px(shape.left), Px(y));
        boxes::draw(out, picture, shape, rank);
        out.push_str("</g>\n");
    }
    bottom + 10.0
}

fn ticks(picture: &Picture<'_>, shape: &Shape) -> Vec<f64> {
    axis::ticks(picture.scale.of(picture.timeline.makespan()), (shape.plot / 75.0) as usize)
}

fn at(picture: &Picture<'_>, shape: &Shape, time: f64) -> f64 {
    shape.left + time * picture.scale.ticks_per_unit * shape.per_tick
}

/// Lines at the axis's numbers.
pub(super) fn grid(out: &mut String, picture: &Picture<'_>, shape: &Shape, (top, bottom): (f64, f64)) {
    let mut lines = String::new();
    for time in ticks(picture, shape) {
        let _ = write!(lines, "M{} {}V{}", Px(at(picture, shape, time)), Px(top), Px(bottom));
    }
    let _ = writeln!(out, "<path class=\"line\" d=\"{lines}\"/>");
}

/// The axis's numbers, and what they count.
pub(super) fn numbers(out: &mut String, picture: &Picture<'_>, shape: &Shape, y: f64) {
    for time in ticks(picture, shape) {
        text(out, "axis mid", (at(picture, shape, time), y), &numbers::short(time));
    }
    text(out, "axis", (shape.left + shape.plot + 8.0, y), &picture.scale.unit);
    text(out, "axis end", (shape.left - 8.0, y), "time");
}
