//! Figures of made-up steps.

use pp_schedule::lower::lanes;
use pp_schedule::{LayerPartition, Placement, ScheduleConfig, ScheduleSpec};

use super::*;

fn times(stage: u32, forward: f64, backward: f64) -> StageTimes {
    StageTimes {
        stage,
        rank: stage,
        forward_ms: Some(forward),
        backward_ms: Some(backward),
        backward_input_ms: None,
        backward_weight_ms: None,
        busy_ms: 2.0 * (forward + backward),
        wait_ms: 0.0,
    }
}

fn measured(stages: Vec<StageTimes>) -> Measured {
    Measured { n_steps: 1, program_ms: 0.0, bubble: 0.0, longest_stage_bubble: 0.0, stages }
}

#[test]
fn equal_stages_are_foretold_the_closed_form() {
    let config = ScheduleConfig::new(&ScheduleSpec::new(4, 1, 8)).unwrap();
    let stages = (0..4).map(|stage| times(stage, 1.5, 3.0)).collect();
    let predicted = Predicted::of(&lanes::lower(&config), &measured(stages)).unwrap();
    assert!((predicted.program_ms - 4.5 * 11.0).abs() < 1e-9, "{predicted:?}");
    assert!((predicted.bubble - 3.0 / 11.0).abs() < 1e-9, "{predicted:?}");
}

#[test]
fn a_stage_is_slow_by_its_peers_only() {
    let stages = [times(0, 1.0, 2.0), times(1, 1.2, 2.6), times(2, 1.0, 2.1), times(3, 3.0, 6.0), times(4, 9.0, 9.0)];
    let slow = |counts: &[u32]| {
        let layers = LayerPartition::from_counts(counts, counts.iter().sum(), Placement::looped(5, 1)).unwrap();
        slow_stages(&stages, &layers).iter().map(|slow| (slow.stage.0, slow.n_peers)).collect::<Vec<_>>()
    };
    // 36 and 18 milliseconds beside 6, 7.6 and 6.2: the median of the others does not follow one that is slow.
    assert_eq!(slow(&[2; 5]), [(4, 4), (3, 4)]);
    // One of a kind is held against all others: it is what the step waits for, whatever it holds.
    assert_eq!(slow(&[2, 2, 2, 4, 6]), [(4, 4), (3, 4)]);
    assert_eq!(slow(&[2, 2, 2, 4, 4]), [(4, 1)]);
    assert_eq!(slow(&[0, 0, 0, 0, 0]), []);
}

#[test]
fn a_median_is_in_the_middle() {
    assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
    assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
    assert_eq!(median(Vec::new()), 0.0);
}

#[test]
fn bubbles_are_shares_of_the_step_and_of_the_longest_rank() {
    // One chunk: first, last, then count and seconds of F, B, I, W, then waiting.
    let step = |numbers: [f64; 11]| kept::Step::of_numbers(&numbers).unwrap();
    let first = step([100.0, 108.0, 2.0, 2.0, 0.0, 0.0, 2.0, 2.0, 2.0, 3.0, 0.5]);
    let last = step([102.0, 110.0, 2.0, 2.0, 2.0, 4.0, 0.0, 0.0, 0.0, 0.0, 1.5]);
    let measured = Measured::of(&[vec![first], vec![last]], Placement::looped(2, 1));
    assert_eq!((measured.n_steps, measured.program_ms), (1, 10_000.0));
    assert!((measured.bubble - 7.0 / 20.0).abs() < 1e-12, "{measured:?}");
    assert!((measured.longest_stage_bubble - 3.0 / 16.0).abs() < 1e-12, "{measured:?}");
    let [zero, one] = &measured.stages[..] else { panic!("{measured:?}") };
    assert_eq!((zero.backward_ms, zero.backward_input_ms, zero.backward_weight_ms), (None, Some(1e3), Some(1.5e3)));
    assert_eq!((one.forward_ms, one.backward_ms, one.busy_ms, one.wait_ms), (Some(1e3), Some(2e3), 6e3, 1.5e3));
    assert_eq!((zero.busy_ms, zero.wait_ms), (7e3, 0.5e3));
}
