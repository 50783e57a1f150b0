//! What each rank holds, over time: a curve per rank, all to one scale, under the same axis of time.

use std::fmt::Write as _;

use super::pen::{Px, text, text_width, wrap};
use super::rows;
use super::shape::{MARGIN, Shape};
use crate::format::picture::Picture;
use crate::simulate::Level;

/// Draws the curves below `y`; returns where the image ends.
pub(super) fn draw(out: &mut String, picture: &Picture<'_>, shape: &Shape, y: f64) -> f64 {
    let most = picture.levels.iter().flatten().map(|level| picture.size_of(level)).max().unwrap_or(0);
    if most == 0 {
        rows::numbers(out, picture, shape, y + 4.0);
        return y + 4.0 + MARGIN;
    }
    let mut top = y + 16.0;
    for (number, line) in
        wrap(&heading(picture), ((shape.width - 2.0 * MARGIN) / text_width(1, 12.0)) as usize).iter().enumerate()
    {
        text(out, if number == 0 { "h2" } else { "note" }, (MARGIN, top), line);
        top += 16.0;
    }
    let step = shape.memory + shape.memory_gap;
    let bottom = top + picture.levels.len() as f64 * step;
    rows::grid(out, picture, shape, (top, bottom));
    for (rank, levels) in picture.levels.iter().enumerate() {
        let y = top + rank as f64 * step;
        if rank % shape.label_every(step) == 0 {
            let base = y + shape.memory / 2.0 + shape.row_font * 0.36;
            text(out, "rank", (shape.left - 8.0, base), &format!("rank {rank}"));
            text(out, "side", (shape.left + shape.plot + 8.0, base), &format!("peak {}", peak(picture, levels)));
        }
        // Writing to a string cannot fail.
        let _ = writeln!(out, "<g transform=\"translate({} {})\">", Px(shape.left), Px(y));
        curves(out, picture, shape, levels, shape.memory / most as f64);
        out.push_str("</g>\n");
    }
    rows::numbers(out, picture, shape, bottom + 12.0);
    bottom + 12.0 + MARGIN
}

fn heading(picture: &Picture<'_>) -> String {
    if picture.bytes_known {
        return "bytes saved for backwards".to_owned();
    }
    let mut text = "microbatches of one chunk saved for backwards".to_owned();
    if picture.levels.iter().flatten().any(|level| level.deferred > 0) {
        text += ": activations in flight (blue), above them deferred weight gradients (purple)";
    }
    text
}

fn peak(picture: &Picture<'_>, levels: &[Level]) -> String {
    picture.amount(levels.iter().map(|level| picture.size_of(level)).max().unwrap_or(0))
}

/// All of it, and over that the part in flight where the parts are known.
fn curves(out: &mut String, picture: &Picture<'_>, shape: &Shape, levels: &[Level], scale: f64) {
    let has_deferred = !picture.bytes_known && levels.iter().any(|level| level.deferred > 0);
    let whole = |level: &Level| picture.size_of(level) as f64 * scale;
    let _ = writeln!(
        out,
        "<path class=\"{}\" d=\"{}\"/>",
        if has_deferred { "late" } else { "held" },
        steps(shape, levels, whole)
    );
    if has_deferred {
        let in_flight = |level: &Level| f64::from(level.in_flight) * scale;
        let _ = writeln!(out, "<path class=\"held\" d=\"{}\"/>", steps(shape, levels, in_flight));
    }
    let Some(highest) =
        levels.iter().rev().max_by_key(|level| picture.size_of(level)).filter(|level| whole(level) > 0.0)
    else {
        return;
    };
    let radius = (shape.memory / 9.0).clamp(0.6, 2.2);
    let (x, y) = (shape.x(highest.time), shape.memory - whole(highest));
    let _ = writeln!(out, "<circle class=\"peak\" cx=\"{}\" cy=\"{}\" r=\"{}\"/>", Px(x), Px(y), Px(radius));
}

/// A closed curve that stays at each level until the next; levels that look the same are one step.
fn steps(shape: &Shape, levels: &[Level], height: impl Fn(&Level) -> f64) -> String {
    let mut path = format!("M0 {}", Px(shape.memory));
    let mut last = 0.0;
    for (index, level) in levels.iter().enumerate() {
        // Of several levels from the same time on, the last is the one that counts.
        if levels.get(index + 1).is_some_and(|next| next.time == level.time) || height(level) == last {
            continue;
        }
        last = height(level);
        let _ = write!(path, "H{}V{}", Px(shape.x(level.time)), Px(shape.memory - last));
    }
    let _ = write!(path, "H{}V{}z", Px(shape.plot), Px(shape.memory));
    path
}
