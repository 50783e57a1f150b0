//! What stands above the timeline: title, figures, lines in closed form, legend.

use std::fmt::Write as _;

use super::boxes::outline;
use super::pen::{Px, text, text_width, wrap};
use super::shape::{MARGIN, Shape};
use super::style::class;
use crate::format::palette;
use crate::format::picture::Picture;
use crate::work::WorkKind;

/// Pixels from one line of small text to the next.
const LINE: f64 = 16.0;
/// A box of the legend.
const SAMPLE: (f64, f64) = (24.0, 15.0);

/// Draws it, larger on a wide image, which is seen from further away; returns where the timeline may begin.
pub(super) fn draw(out: &mut String, picture: &Picture<'_>, shape: &Shape) -> f64 {
    let scale = (shape.width / 1400.0).clamp(1.0, 1.7);
    let inner = shape.width / scale;
    // Writing to a string cannot fail.
    let _ = writeln!(out, "<g transform=\"scale({})\">", Px(scale));
    let bottom = lines(out, picture, inner);
    let bottom = legend(out, picture, inner, bottom + 4.0);
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

/// One entry: how it looks, drawn at a place, and what it means.
struct Entry {
    sample: Box<dyn Fn(&mut String, f64, f64)>,
    width: f64,
    meaning: String,
}

/// The legend below `top`, in an image so wide; returns where it ends.
pub(super) fn legend(out: &mut String, picture: &Picture<'_>, image: f64, top: f64) -> f64 {
    let (mut x, mut y) = (MARGIN, top);
    for Entry { sample, width, meaning } in entries(picture) {
        let whole = width + 6.0 + text_width(meaning.chars().count(), 11.0);
        if x > MARGIN && x + whole > image - MARGIN {
            (x, y) = (MARGIN, y + SAMPLE.1 + 8.0);
        }
        sample(out, x, y);
        text(out, "key", (x + width + 6.0, y + 11.5), &meaning);
        x += whole + 14.0;
    }
    y + SAMPLE.1 + 20.0
}

fn entries(picture: &Picture<'_>) -> Vec<Entry> {
    let (width, height) = SAMPLE;
    let mut entries = Vec::new();
    let mut add = |width: f64, meaning: &str, sample: Box<dyn Fn(&mut String, f64, f64)>| {
        entries.push(Entry { sample, width, meaning: meaning.to_owned() });
    };
    for (kind, meaning) in
        WorkKind::ALL.into_iter().zip(["forward", "full backward", "input gradient", "weight gradient"])
    {
        if picture.has(kind) {
            let meaning = format!("{} {meaning}", kind.letter());
            add(width, &meaning, Box::new(move |out, x, y| sample(out, &class(kind, 0), x, y, width)));
        }
    }
    let n_chunks = picture.timeline.extent().placement.n_chunks();
    if n_chunks > 1 {
        let shades = palette::n_shades(n_chunks);
        let part = 11.0;
        let chunks = format!("chunks 0 to {}", n_chunks - 1);
        add(
            part * f64::from(shades),
            &chunks,
            Box::new(move |out, x, y| {
                for shade in 0..shades {
                    sample(out, &class(WorkKind::Forward, shade), x + part * f64::from(shade), y, part);
                }
            }),
        );
    }
    if picture.has_pairs() {
        add(
            width,
            "overlapped pair",
            Box::new(move |out, x, y| {
                sample(out, &class(WorkKind::Forward, 0), x, y, width / 2.0);
                sample(out, &class(WorkKind::Backward, 0), x + width / 2.0, y, width / 2.0);
                // Writing to a string cannot fail.
                let _ =
                    writeln!(out, "<path class=\"pair\" stroke-width=\"2\" d=\"{}\"/>", outline(x, y, width, height));
            }),
        );
    }
    add(
        width,
        "waiting",
        Box::new(move |out, x, y| {
            let _ = writeln!(out, "<path class=\"wait\" d=\"{}\"/>", outline(x, y + 4.0, width, height - 8.0));
        }),
    );
    add(
        width,
        "nothing yet, or done",
        Box::new(move |out, x, y| {
            let _ = writeln!(out, "<path class=\"idle\" d=\"M{} {}h{}\"/>", Px(x), Px(y + height / 2.0), Px(width));
        }),
    );
    entries
}

fn sample(out: &mut String, class: &str, x: f64, y: f64, width: f64) {
    let _ = writeln!(out, "<path class=\"box {class}\" d=\"{}\"/>", outline(x, y, width, SAMPLE.1));
}
