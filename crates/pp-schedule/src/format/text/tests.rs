//! That drawings fit, and say what there is.

use super::*;
use crate::format::samples::{self, Sample};
use crate::order::Extent;
use crate::placement::Placement;
use crate::simulate::Costs;

fn without_colour(text: &str) -> String {
    let mut plain = String::new();
    let mut parts = text.split('\u{1b}');
    plain.push_str(parts.next().unwrap_or_default());
    for part in parts {
        plain.push_str(part.split_once('m').expect("a sequence ends").1);
    }
    plain
}

#[test]
fn no_line_is_wider_than_was_asked() {
    for sample in samples::all() {
        for width in [0, MIN_WIDTH, 40, 61, 80, 100, 200, 1000] {
            for (colour, scale) in [(false, None), (true, Some(&sample.scale))] {
                let text = draw_with(&sample.timeline, Style { width, colour, scale });
                let plain = without_colour(&text);
                let widest = plain.lines().map(|line| line.chars().count()).max().unwrap_or(0);
                assert!(widest <= width.max(MIN_WIDTH), "{}: {widest} > {width}\n{plain}", sample.name);
                assert!(plain.lines().count() <= MAX_LINES, "{} at {width}: {}", sample.name, plain.lines().count());
            }
        }
    }
}

#[test]
fn colour_changes_no_character() {
    for sample in samples::all() {
        for width in [40, 100] {
            let style = Style { width, colour: false, scale: Some(&sample.scale) };
            let coloured = draw_with(&sample.timeline, Style { colour: true, ..style });
            assert!(coloured.contains("\u{1b}[48;5;"), "{}", sample.name);
            let trimmed = |text: &str| text.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>();
            assert_eq!(trimmed(&without_colour(&coloured)), trimmed(&draw_with(&sample.timeline, style)));
        }
    }
}

#[test]
fn unit_costs_have_every_token_once() {
    let order = samples::generated(4, 2, 8);
    let timeline = Timeline::of_order(&order, &Costs::UNIT).expect("a timeline");
    for width in [60, 100, 400] {
        let text = draw(&timeline, width);
        let mut tokens: Vec<&str> =
            text.split_whitespace().filter(|word| word.contains(['F', 'B']) && !word.contains('-')).collect();
        tokens.sort_unstable();
        let mut works: Vec<String> = order.rows().iter().flatten().map(ToString::to_string).collect();
        works.sort_unstable();
        assert_eq!(tokens, works, "{width}");
    }
}

#[test]
fn times_that_are_multiples_of_one_are_drawn_as_if_it_were_one() {
    let order = samples::generated(3, 1, 4);
    let unit = Timeline::of_order(&order, &Costs::UNIT).expect("a timeline");
    let (forward, backward, backward_input, backward_weight) = (7000, 14000, 7000, 7000);
    let costs = crate::simulate::StageCosts { forward, backward, backward_input, backward_weight };
    let seven = Timeline::of_order(&order, &Costs::uniform(costs)).expect("a timeline");
    let scale = Scale { ticks_per_unit: 7000.0, unit: "x".to_owned() };
    let rows = |text: &str| text.lines().filter(|line| line.starts_with("rank")).map(str::to_owned).collect::<Vec<_>>();
    let text = draw_with(&seven, Style { width: 100, colour: false, scale: Some(&scale) });
    assert!(text.starts_with("time   0   1   2   3"), "{text}");
    assert_eq!(rows(&text), rows(&draw(&unit, 100)));
}

#[test]
fn uneven_costs_are_as_long_as_their_time() {
    let sample = Sample::new("split", samples::split(), &samples::uneven());
    let text = draw_with(&sample.timeline, Style { width: 80, colour: false, scale: Some(&sample.scale) });
    let rank0 = text.lines().find(|line| line.starts_with("rank 0")).expect("a row");
    for token in ["F0", "F1", "I0", "W0", "I1", "W1"] {
        assert_eq!(rank0.matches(token).count(), 1, "{token} in {rank0}");
    }
    assert!(text.ends_with(" ms\n"), "{text}");
    let characters =
        |token: char| rank0.chars().skip_while(|c| *c != token).skip(2).take_while(|c| *c == '-').count() + 2;
    let (forward, weight) = (characters('F') as f64, characters('W') as f64);
    assert!((forward / weight - 18522.0 / 9337.0).abs() < 0.4, "{forward} {weight}");
}

#[test]
fn many_ranks_are_drawn_in_groups() {
    let sample = Sample::new("ranks", samples::generated(130, 1, 8), &Costs::UNIT);
    let text = draw(&sample.timeline, 60);
    assert!(text.contains("ranks 0-2 ") && text.contains("ranks 126-128 ") && text.contains("rank 129 "), "{text}");
    assert!(text.lines().count() < 70 && text.contains("idle \" .:-=+*#%@\" busy"));
}

#[test]
fn a_rank_that_is_always_busy_is_darkest() {
    let sample = Sample::new("long", samples::generated(1, 1, 4096), &samples::uneven());
    let text = draw(&sample.timeline, 50);
    assert!(text.lines().any(|line| line == format!("rank 0 {}", "@".repeat(43))), "{text}");
}

#[test]
fn a_timeline_of_nothing_is_drawn() {
    let extent = Extent { placement: Placement::looped(2, 1), microbatches: 1, forward_only: false };
    for rows in [vec![], vec![vec![], vec![]]] {
        let text = draw(&Timeline::measured(extent, rows), 40);
        assert!(text.lines().all(|line| line.len() <= 40));
    }
}
