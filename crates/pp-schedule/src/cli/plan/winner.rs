//! The winner: its flags, its ranks, its drawing.

use super::super::CommandError;
use super::super::table::table;
use super::args::Asked;
use super::flags;
use super::name::name;
use crate::format::text::{self, Style};
use crate::plan::{Candidate, Choice, Simulation};
use crate::quantity::{Bytes, Time};

/// All that is said of it.
pub(super) fn describe(asked: &Asked, winner: &Choice, style: Style<'_>) -> Result<String, CommandError> {
    let candidate = &winner.candidate;
    let mut said = format!("\nthe winner: {}\n", name(candidate));
    said += &format!("  cargo xtask launch {}\n", flags::trainer(asked, candidate));
    said += &format!("  pp-schedule show {}\n", flags::schedule(candidate));
    for note in flags::notes(candidate) {
        said += &format!("  ({note})\n");
    }
    let simulated = candidate.simulate()?;
    said += &format!("\n{}\n{}", by_rank(asked, candidate, &simulated), text::draw_with(&simulated.timeline, style));
    Ok(said)
}

/// What each rank does and holds.
fn by_rank(asked: &Asked, candidate: &Candidate, simulated: &Simulation) -> String {
    let memory = candidate.memory(asked.request.model.message);
    let placement = candidate.config.placement();
    let rows = simulated.report.ranks.iter().zip(&memory).map(|(rank, memory)| {
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
    table(2, &head, &rows)
}
