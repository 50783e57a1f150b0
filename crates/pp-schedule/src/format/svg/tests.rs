//! That an image is one, and shows what there is.

use super::*;
use crate::format::picture::Picture;
use crate::format::samples::{self, Sample};
use crate::format::wellformed::{Piece, pieces};
use crate::order::Extent;
use crate::placement::Placement;
use crate::simulate::{Report, Scale, StageBytes, Timeline};

fn picture(sample: &Sample) -> Picture<'_> {
    Picture::new(sample.name, &sample.timeline, &sample.report, &sample.scale).with_pairs(&sample.order)
}

/// The boxes of an image: where each begins, and how wide it is, by the vertical place of its row.
fn boxes(image: &str) -> Vec<(f64, f64, f64)> {
    let (mut boxes, mut y) = (Vec::new(), 0.0);
    for piece in pieces(image) {
        let Piece::Start { attributes, .. } = piece else { continue };
        let get = |name| attributes.iter().find(|(other, _)| *other == name).map(|(_, value)| *value);
        if let Some(translate) = get("transform").and_then(|transform| transform.strip_prefix("translate(")) {
            y = translate.trim_end_matches(')').split(' ').nth(1).expect("two numbers").parse().expect("a number");
        }
        // Those of the legend stand above the first row.
        if y > 0.0 && get("class").is_some_and(|class| class.starts_with("box ")) {
            for path in get("d").expect("a path").split('M').skip(1) {
                let (x, rest) = path.split_once(' ').expect("a place");
                let (_, rest) = rest.split_once('h').expect("a width");
                let (width, _) = rest.split_once('v').expect("a height");
                boxes.push((y, x.parse().expect("x"), width.parse().expect("width")));
            }
        }
    }
    boxes
}

#[test]
fn every_computation_is_one_box_in_its_rows_order() {
    for sample in samples::all() {
        let image = draw(&picture(&sample));
        let mut boxes = boxes(&image);
        let n_spans: usize = sample.timeline.rows().iter().map(Vec::len).sum();
        assert_eq!(boxes.len(), n_spans, "{}", sample.name);
        boxes.sort_by(|one, other| one.partial_cmp(other).expect("numbers"));
        let plot = Shape::new(&picture(&sample), None);
        let rows: Vec<_> = boxes.chunk_by(|one, other| one.0 == other.0).collect();
        for (row, spans) in rows.iter().zip(sample.timeline.rows()) {
            assert_eq!(row.len(), spans.len(), "{}", sample.name);
            for (&(_, x, width), span) in row.iter().zip(spans) {
                assert!((x - plot.x(span.start)).abs() < 0.01, "{}: {} at {x}", sample.name, span.work);
                assert!(width > 0.0 && x + width <= plot.x(span.end) + 0.31, "{}: {}", sample.name, span.work);
            }
        }
    }
}

#[test]
fn details_name_every_computation_where_there_are_not_too_many() {
    for sample in samples::all() {
        let image = draw(&picture(&sample));
        let n_spans: usize = sample.timeline.rows().iter().map(Vec::len).sum();
        for span in sample.timeline.rows().iter().flatten().take(40) {
            let n = image.matches(&format!("<title>{}:", span.work)).count();
            assert_eq!(n, 1, "{}: {} has its details once", sample.name, span.work);
        }
        assert!(image.len() < 200 * n_spans + 200_000, "{}: {} characters", sample.name, image.len());
    }
}

#[test]
fn beyond_so_many_boxes_they_are_merged() {
    let sample = Sample::new("huge", samples::generated(16, 4, 192), &samples::uneven());
    let image = draw(&picture(&sample));
    assert_eq!(boxes(&image).len(), 16 * 4 * 192 * 2);
    assert!(image.len() < 30 * 16 * 4 * 192 * 2, "{}", image.len());
}

#[test]
fn what_a_user_says_is_text() {
    let mut sample = Sample::new("split", samples::split(), &samples::uneven());
    sample.scale.unit = "<b>&\"'".to_owned();
    let nasty = "</title><script>alert(1)</script> & \"quotes\"\u{1b}";
    let picture = Picture::new(nasty, &sample.timeline, &sample.report, &sample.scale)
        .with_closed_form(vec![nasty.to_owned()])
        .with_notes(vec![nasty.to_owned()]);
    let image = draw(&picture);
    pieces(&image);
    assert!(!image.contains("<script") && !image.contains("<b>"));
    assert!(image.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
}

#[test]
fn figures_legend_and_memory_are_those_of_the_picture() {
    let sample = Sample::new("overlapped", samples::overlapped(), &samples::uneven());
    let picture = picture(&sample).with_bytes(samples::bytes).with_closed_form(vec!["bubble = 1/4".to_owned()]);
    let image = draw(&picture);
    for figure in picture.figures() {
        assert!(image.contains(&format!(">{}</text>", escape(&figure.value))), "{}", figure.name);
    }
    for text in
        ["F forward", "B full backward", "I input gradient", "W weight gradient", "chunks 0 to 1", "overlapped pair"]
    {
        assert!(image.contains(&format!(">{text}</text>")), "{text}");
    }
    assert!(image.contains(">closed form: bubble = 1/4</text>"));
    for rank in &sample.report.ranks {
        let peak = format!(">peak {}</text>", crate::quantity::Bytes(rank.peak_bytes));
        assert!(image.contains(&peak), "{peak}");
    }
    // One frame per pair, and that of the legend.
    let frames =
        image.split("class=\"pair\"").skip(1).map(|rest| rest[..rest.find("/>").expect("an end")].matches('M').count());
    assert_eq!(frames.sum::<usize>(), 2 + 1);
}

#[test]
fn kinds_that_are_not_there_are_not_in_the_legend() {
    let sample = Sample::new("1f1b", samples::generated(2, 1, 2), &samples::uneven());
    let image = draw(&picture(&sample));
    assert!(!image.contains("input gradient") && !image.contains("chunks") && !image.contains("overlapped"));
}

#[test]
fn an_image_is_as_wide_as_was_asked() {
    let sample = Sample::new("1f1b", samples::generated(4, 2, 8), &samples::uneven());
    for (asked, width) in [(900, 900), (3000, 3000), (0, 480)] {
        let image = draw_with(&picture(&sample), Options { width: Some(asked) });
        assert!(image.contains(&format!(" width=\"{width}\" ")), "{asked}");
        assert_eq!(boxes(&image).len(), 4 * 2 * 8 * 2);
    }
}

#[test]
fn a_timeline_of_nothing_is_drawn() {
    let extent = Extent { placement: Placement::looped(2, 1), microbatches: 1, forward_only: false };
    let scale = Scale { ticks_per_unit: 0.0, unit: String::new() };
    for rows in [vec![], vec![vec![], vec![]]] {
        let timeline = Timeline::measured(extent, rows);
        let report = Report::new(&timeline, |_| StageBytes::default());
        pieces(&draw(&Picture::new("", &timeline, &report, &scale)));
    }
}
