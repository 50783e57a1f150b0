//! One rank's row: its computations as boxes, the letters in them, and its waiting.

use std::fmt::Write as _;

use super::pen::Px;
use super::shape::Shape;
use super::style::class;
use crate::format::palette;
use crate::format::picture::Picture;
use crate::format::picture::wait;
use crate::simulate::Span;

/// A rectangle as a path.
pub(super) fn outline(x: f64, y: f64, width: f64, height: f64) -> String {
    format!("M{} {}h{}v{}h-{}z", Px(x), Px(y), Px(width), Px(height), Px(width))
}

/// Draws a row's waiting, boxes and letters; `y` 0 is the row's top, `x` 0 is time 0.
pub(super) fn draw(out: &mut String, picture: &Picture<'_>, shape: &Shape, rank: usize) {
    let row = &picture.timeline.rows()[rank];
    waiting(out, picture, shape, rank);
    let drawn = |span: &Span| (shape.x(span.start), width(shape, span));
    if shape.details {
        for (index, span) in row.iter().enumerate() {
            let (x, width) = drawn(span);
            // Writing to a string cannot fail.
            let _ = writeln!(
                out,
                "<path class=\"box {}\" d=\"{}\"><title>{}</title></path>",
                class_of(picture, span),
                outline(x, 0.0, width, shape.row),
                super::escape(&details(picture, rank, index)),
            );
        }
    } else {
        merged(out, picture, shape, row);
    }
    let mut letters = String::new();
    for span in row {
        let (x, width) = drawn(span);
        if let Some(label) = shape.label_of(span.work, width) {
            let _ = write!(letters, "<tspan x=\"{}\">{label}</tspan>", Px(x + width / 2.0));
        }
    }
    if !letters.is_empty() {
        let _ =
            writeln!(out, "<text class=\"in\" y=\"{}\">{letters}</text>", Px(shape.row / 2.0 + shape.box_font * 0.36));
    }
    pairs(out, picture, shape, rank);
}

/// A hair narrower than its time, so that neighbours stay apart; never narrower than can be seen.
fn width(shape: &Shape, span: &Span) -> f64 {
    let whole = shape.x(span.end - span.start);
    if whole > 4.0 { whole - 0.7 } else { (whole * 0.85).max(0.3) }
}

fn class_of(picture: &Picture<'_>, span: &Span) -> String {
    let placement = picture.timeline.extent().placement;
    let chunk = placement.chunk_of(span.work.stage).0;
    class(span.work.kind, palette::shade_of(chunk, placement.n_chunks()))
}

/// One path for all boxes of a class.
fn merged(out: &mut String, picture: &Picture<'_>, shape: &Shape, row: &[Span]) {
    let mut paths = std::collections::BTreeMap::<String, String>::new();
    for span in row {
        let path = paths.entry(class_of(picture, span)).or_default();
        path.push_str(&outline(shape.x(span.start), 0.0, width(shape, span), shape.row));
    }
    for (class, path) in paths {
        let _ = writeln!(out, "<path class=\"box {class}\" d=\"{path}\"/>");
    }
}

/// What a browser shows for a box.
fn details(picture: &Picture<'_>, rank: usize, index: usize) -> String {
    let span = &picture.timeline.rows()[rank][index];
    let mut text = format!("{}: {} to {}", span.work, picture.number(span.start), picture.time(span.end));
    if let Some(wait) = wait::before(picture.timeline, rank, index).filter(|wait| wait.ticks > 0) {
        let _ = write!(text, ", waited {}", picture.number(wait.ticks));
        if let Some((rank, work)) = wait.waited_for {
            let _ = write!(text, " for {work} on rank {rank}");
        }
    }
    text
}

/// Thin and hatched between a rank's computations; a dotted line before its first and after its last.
fn waiting(out: &mut String, picture: &Picture<'_>, shape: &Shape, rank: usize) {
    let row = &picture.timeline.rows()[rank];
    let (first, last) = (row.first().map_or(0, |span| span.start), row.last().map_or(0, |span| span.end));
    let middle = shape.row / 2.0;
    let mut dotted = String::new();
    for (start, end) in [(0, first), (last, picture.timeline.makespan())] {
        if start < end {
            let _ = write!(dotted, "M{} {}H{}", Px(shape.x(start)), Px(middle), Px(shape.x(end)));
        }
    }
    if !dotted.is_empty() {
        let _ = writeln!(out, "<path class=\"idle\" d=\"{dotted}\"/>");
    }
    let height = shape.row * 0.4;
    let mut hatched = String::new();
    for pair in row.windows(2).filter(|pair| pair[0].end < pair[1].start) {
        let (start, end) = (shape.x(pair[0].end), shape.x(pair[1].start));
        hatched.push_str(&outline(start, middle - height / 2.0, end - start, height));
    }
    if !hatched.is_empty() {
        let _ = writeln!(out, "<path class=\"wait\" d=\"{hatched}\"/>");
    }
}

/// A frame around the two of each overlapped pair, thinner where they are short.
fn pairs(out: &mut String, picture: &Picture<'_>, shape: &Shape, rank: usize) {
    let row = &picture.timeline.rows()[rank];
    let (mut frames, mut narrowest) = (String::new(), f64::INFINITY);
    for &start in picture.pairs.get(rank).into_iter().flatten() {
        if let Some([forward, backward]) = row.get(start as usize..start as usize + 2) {
            let x = shape.x(forward.start);
            let width = shape.x(backward.start) + width(shape, backward) - x;
            frames.push_str(&outline(x + 0.5, 0.0, (width - 1.0).max(0.5), shape.row));
            narrowest = narrowest.min(width);
        }
    }
    if !frames.is_empty() {
        let line = Px((narrowest / 16.0).clamp(0.5, 2.0));
        let _ = writeln!(out, "<path class=\"pair\" stroke-width=\"{line}\" d=\"{frames}\"/>");
    }
}
