//! For tests: timelines of all sorts.

use super::csv::Grid;
use crate::config::{ScheduleConfig, ScheduleSpec};
use crate::ids::{Rank, Stage};
use crate::order::Order;
use crate::placement::Placement;
use crate::simulate::{Costs, Link, Report, Scale, StageBytes, StageCosts, Timeline};

/// An order, and its timeline in some costs.
#[derive(Debug)]
pub(super) struct Sample {
    pub(super) name: &'static str,
    pub(super) order: Order,
    pub(super) timeline: Timeline,
    pub(super) report: Report,
    pub(super) scale: Scale,
}

/// Costs that are no small multiples of anything, with messages that take their time.
pub(super) fn uneven() -> Costs {
    Costs::uniform(StageCosts { forward: 18522, backward: 27423, backward_input: 18086, backward_weight: 9337 })
        .with_link(Link { latency: 501, transfer: 100 })
}

impl Sample {
    pub(super) fn new(name: &'static str, order: Order, costs: &Costs) -> Self {
        let timeline = Timeline::of_order(&order, costs).expect("an order that can be played");
        let report = Report::new(&timeline, bytes);
        Self { name, order, timeline, report, scale: Scale { ticks_per_unit: 1000.0, unit: "ms".to_owned() } }
    }
}

pub(super) fn bytes(stage: Stage) -> StageBytes {
    StageBytes { activation: 300_000_000 + u64::from(stage.0), deferred: 120_000_000 }
}

pub(super) fn generated(pp: u32, vp: u32, microbatches: u32) -> Order {
    let spec = ScheduleSpec::new(pp, vp, microbatches);
    Order::generate(&ScheduleConfig::new(&spec).expect("a valid size"))
}

/// Split backwards on two ranks.
pub(super) fn split() -> Order {
    let text = "0F0,0F1,0I0,0W0,0I1,0W1\n1F0,1I0,1F1,1I1,1W0,1W1\n";
    Grid::parse(text).expect("a grid").to_order().expect("an order")
}

/// Overlapped pairs over a V.
pub(super) fn overlapped() -> Order {
    let text = "0F0,0F1,3F0,(3F1;3B0)OVERLAP_F_B,0B0,3I1,3W1,0B1\n1F0,1F1,2F0,(2F1;2B0)OVERLAP_F_B,1B0,2I1,2W1,1B1\n";
    let order = Grid::parse(text).expect("a grid").to_order().expect("an order");
    assert_eq!((order.extent().placement, order.pairs(Rank(0)).len()), (Placement::v(2), 1));
    order
}

/// All sorts.
pub(super) fn all() -> Vec<Sample> {
    vec![
        Sample::new("one rank", generated(1, 1, 1), &Costs::UNIT),
        Sample::new("1f1b", generated(4, 1, 12), &Costs::UNIT),
        Sample::new("uneven", generated(3, 2, 6), &uneven()),
        Sample::new("split", split(), &uneven()),
        Sample::new("overlapped", overlapped(), &Costs::UNIT.with_link(Link { latency: 1, transfer: 0 })),
        Sample::new("many ranks", generated(64, 1, 32), &Costs::UNIT),
        Sample::new("many microbatches", generated(8, 4, 96), &uneven()),
        Sample::new("very many ranks", generated(130, 1, 8), &Costs::UNIT),
    ]
}
