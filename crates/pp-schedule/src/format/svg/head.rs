//! What stands above the timeline: title, figures, lines in closed form, legend.

use std::fmt::Write as _;

use super::legend;
use super::pen::{Px, text, text_width, wrap};
use super::shape::{MARGIN, Shape};
use crate::format::picture::Picture;

/// Pixels from one line of small text to the next.
const LINE: f64 = 16.0;

/// Draws it, larger on a wide image, which is seen from further away; returns where the timeline may begin.
pub(super) fn draw(out: &mut String, picture: &Picture<'_>, shape: &Shape) -> f64 {
    let scale = (shape.width / 1400.0).clamp(1.0, 1.7);
    let inner = shape.width / scale;
    // Writing to a string cannot fail.
    let _ = writeln!(out, "<g transform=\"scale({})\">", Px(scale));
    let bottom = lines(out, picture, inner);
    let bottom = legend::draw(out, picture, inner, bottom + 4.0);
    out.push_str("</g>\n");
    // Rounded as it is written.
    bottom * (scale * 100.0).round() / 100.0
}

/// Title, figures, closed form and notes.
fn lines(out: &mut String, picture: &Picture<'_>, width: f64) -> f64 {
    let room = width - 2.0 * MARGIN;
    let mut y = MARGIN + 14.0;
    for line in wrap(&picture.title, (room / text_width(1, 17.0)) as usize) {
        text(out, "h1", (MARGIN, y), &line);
        y += 22.0;
    }
    y = figures(out, picture, width, y + 2.0);
    let lines =
        picture.closed_form.iter().map(|line| format!("closed form: {line}")).chain(picture.notes.iter().cloned());
    for line in lines.flat_map(|line| wrap(&line, (room / text_width(1, 11.0)) as usize)) {
        text(out, "note", (MARGIN, y), &line);
        y += LINE;
    }
    y
}

fn figures(out: &mut String, picture: &Picture<'_>, image: f64, top: f64) -> f64 {
    let (mut x, mut y) = (MARGIN, top);
    for figure in picture.figures() {
        let width = text_width(figure.name.chars().count(), 11.0).max(text_width(figure.value.chars().count(), 15.0));
        if x > MARGIN && x + width > image - MARGIN {
            (x, y) = (MARGIN, y + 40.0);
        }
        text(out, "name", (x, y + 6.0), figure.name);
        text(out, "value", (x, y + 24.0), &figure.value);
        x += width + 26.0;
    }
    y + 46.0
}
