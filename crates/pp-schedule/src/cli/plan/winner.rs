//! The winner: its flags, its ranks, its drawing.

use super::super::CommandError;
use super::args::Asked;
use super::flags;
use super::layout::{name, table};
use crate::format::text as drawing;
use crate::order::Order;
use crate::plan::{Bytes, Choice, Time};
use crate::simulate::{Costs, Link, StageCosts, Timeline};

/// The most cells, ranks times units of time, that are drawn.
const MAX_DRAWN_CELLS: u64 = 4000;

/// All that is said of it.
pub(super) fn describe(asked: &Asked, winner: &Choice, width: usize) -> Result<String, CommandError> {
    let candidate = &winner.candidate;
    let mut text = format!("\nthe winner: {}\n", name(candidate));
    text += &format!("  cargo xtask launch {}\n", flags::trainer(asked, candidate));
    text += &format!("  pp-schedule show {}\n", flags::schedule(candidate));
    for note in flags::notes(candidate) {
        text += &format!("  ({note})\n");
    }
    text += &format!("\n{}\n{}", by_rank(asked, winner)?, draw(winner, width)?);
    Ok(text)
}

/// What each rank does and holds.
fn by_rank(asked: &Asked, winner: &Choice) -> Result<String, CommandError> {
    let candidate = &winner.candidate;
    let report = candidate.picture()?.report;
    let memory = candidate.memory(asked.request.model.message);
    let placement = candidate.config.placement();
    let rows = report.ranks.iter().zip(&memory).map(|(rank, memory)| {
        let layers = placement.stages_of(rank.rank).map(|stage| {
            let range = candidate.stages.layers.range(stage);
            if range.len() == 1 { range.start.to_string() } else { format!("{}-{}", range.start, range.end - 1) }
        });
        let layers: Vec<String> = layers.collect();
        let times = [rank.busy, rank.wait, rank.idle].map(|ticks| Time(ticks).to_string());
        let bytes = [memory.weights, memory.saved, memory.total()].map(|bytes| Bytes(bytes).to_string());
        [vec![rank.rank.to_string()], times.to_vec(), bytes.to_vec(), vec![layers.join(" ")]].concat()
    });
    let rows: Vec<_> = rows.collect();
    let head = ["rank", "computes", "waits", "idle at the ends", "weights", "activations", "memory", "layers"];
    Ok(table(&head, &rows))
}

/// The drawing, in units of the cheapest forward: times are rounded to it, and what is drawn is simulated again.
fn draw(winner: &Choice, width: usize) -> Result<String, CommandError> {
    let stages = &winner.candidate.stages;
    let unit = stages.loads.iter().map(|load| load.costs.forward).filter(|ticks| *ticks > 0).min().unwrap_or(1);
    let units = |ticks: u64| (ticks + unit / 2) / unit;
    let at_least_one = |ticks: u64| units(ticks).max(1);
    let rounded = stages.loads.iter().map(|load| StageCosts {
        forward: at_least_one(load.costs.forward),
        backward: at_least_one(load.costs.backward),
        backward_input: at_least_one(load.costs.backward_input),
        backward_weight: at_least_one(load.costs.backward_weight),
    });
    let link = Link { latency: units(stages.link.delay()), transfer: 0 };
    let costs = Costs::per_stage(rounded.collect()).with_link(link);
    let timeline = Timeline::of_order(&Order::generate(&winner.candidate.config), &costs)?;
    let cells = timeline.makespan() * timeline.rows().len() as u64;
    if cells > MAX_DRAWN_CELLS {
        return Ok(format!("not drawn: {cells} cells, of which at most {MAX_DRAWN_CELLS} are; try --format svg\n"));
    }
    Ok(format!("in units of {}, rounded\n\n{}", Time(unit), drawing::draw(&timeline, width)))
}
