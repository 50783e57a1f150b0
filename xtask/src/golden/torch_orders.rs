//! `torch_orders`: the order of computations of each torch schedule, and what it refuses.

use anyhow::{Result, bail};
use pp_schedule::format::csv::{Grid, write_row};
use pp_schedule::{
    Extent, GPipeBackward, Microbatch, Order, Placement, ScheduleConfig, ScheduleKind, ScheduleSpec, Stage, Work,
};
use serde_json::{Map, Value, json};

use super::fields::{check_rows, flag, keep, optional_size, size, text};

/// torch's actions on parameters and gradients that are sharded, which are no part of an order.
const MARKS: [&str; 3] = ["UNSHARD", "RESHARD", "REDUCE_GRAD"];

/// A schedule of torch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct TorchSchedule {
    name: &'static str,
    kind: ScheduleKind,
}

impl TorchSchedule {
    const ALL: [Self; 7] = [
        Self { name: "1F1B", kind: ScheduleKind::OneFOneB },
        Self { name: "DualPipeV", kind: ScheduleKind::DualPipeV },
        Self { name: "GPipe", kind: ScheduleKind::GPipe },
        Self { name: "Interleaved1F1B", kind: ScheduleKind::Interleaved },
        Self { name: "InterleavedZeroBubble", kind: ScheduleKind::InterleavedZb },
        Self { name: "LoopedBFS", kind: ScheduleKind::LoopedBfs },
        Self { name: "ZBVZeroBubble", kind: ScheduleKind::ZbV },
    ];

    /// The schedule that a question names.
    pub(super) fn of(question: &Map<String, Value>) -> Result<Self> {
        let name = text(question, "schedule")?;
        match Self::ALL.into_iter().find(|schedule| schedule.name == name) {
            Some(schedule) => Ok(schedule),
            None => bail!("unknown schedule `{name}`; known: {}", Self::ALL.map(|known| known.name).join(", ")),
        }
    }

    /// Whether torch runs it with one stage per rank and no other number, and has no mapping of stages for it.
    pub(super) const fn is_single(self) -> bool {
        matches!(self.kind, ScheduleKind::GPipe | ScheduleKind::OneFOneB)
    }

    /// What torch refuses. Ours refuses less: a smaller step is the same order with microbatches left out, and rounds
    /// may differ in size.
    pub(super) fn refusal(self, pp: u32, v: u32, m: u32) -> Option<String> {
        let (name, rounds) = (self.name, (m / pp).max(1));
        match self.kind {
            ScheduleKind::OneFOneB if m < pp => {
                Some(format!("{name} needs a microbatch per stage, but m is {m} and there are {pp} stages"))
            }
            ScheduleKind::Interleaved | ScheduleKind::InterleavedZb if !m.is_multiple_of(rounds) => {
                Some(format!("{name} needs rounds of one size, but {rounds} rounds do not divide m = {m}"))
            }
            ScheduleKind::ZbV | ScheduleKind::DualPipeV if v != 2 => {
                Some(format!("{name} needs two stages per rank, but v is {v}"))
            }
            ScheduleKind::DualPipeV if m < 2 * pp => {
                Some(format!("{name} needs a microbatch per stage, but m is {m} and there are {} stages", 2 * pp))
            }
            _ => None,
        }
    }

    /// torch's order of computations.
    pub(super) fn order(self, pp: u32, v: u32, m: u32) -> Result<Order> {
        match self.kind {
            ScheduleKind::Interleaved if pp == 1 => interleaved_on_one_rank(v, m),
            _ => Ok(Order::generate(&self.config(pp, v, m)?)),
        }
    }

    /// Our configuration whose order is torch's; interleaved on one rank has none.
    fn config(self, pp: u32, v: u32, m: u32) -> Result<ScheduleConfig> {
        let spec = ScheduleSpec {
            schedule: Some(self.kind),
            // Rounds are groups, as many as there can be.
            allow_bubbles: true,
            gpipe_backward: (self.kind == ScheduleKind::GPipe).then_some(GPipeBackward::Ascending),
            ..ScheduleSpec::new(pp, v, m)
        };
        Ok(ScheduleConfig::new(&spec)?)
    }
}

/// Rounds of one microbatch each: as many forwards ahead as bring the first one to the last stage, then by turns.
fn interleaved_on_one_rank(v: u32, m: u32) -> Result<Order> {
    let stages = || (0..v).map(Stage);
    let microbatches = || (0..m).map(Microbatch);
    let mut forwards = microbatches().flat_map(|m| stages().map(move |stage| Work::forward(stage, m)));
    let mut backwards = microbatches().flat_map(|m| stages().rev().map(move |stage| Work::backward(stage, m)));
    let mut row: Vec<Work> = forwards.by_ref().take(v as usize - 1).collect();
    for forward in forwards {
        row.push(forward);
        row.extend(backwards.next());
    }
    row.extend(backwards);
    let extent = Extent { placement: Placement::looped(1, v), microbatches: m, forward_only: false };
    Ok(Order::new(extent, vec![row])?)
}

pub(super) fn judged(question: &Map<String, Value>) -> Result<Option<&'static [&'static str]>> {
    let schedule = TorchSchedule::of(question)?;
    let refused = question.get("reject").is_some_and(|reject| !reject.is_null());
    Ok(match schedule.kind {
        // Recorded for their communication alone.
        _ if flag(question, "defer_pp_recv")? == Some(true) => None,
        _ if refused => Some(&["reject"]),
        // Its order, which torch has for display only, is wrong on the last rank.
        ScheduleKind::OneFOneB => Some(&["reject"]),
        _ if schedule.is_single() => Some(&["reject", "compute"]),
        _ => Some(&["reject", "compute", "stage_to_rank"]),
    })
}

pub(super) fn answer(question: &Map<String, Value>) -> Result<Map<String, Value>> {
    let schedule = TorchSchedule::of(question)?;
    let (pp, m) = (size(question, "pp")?, size(question, "m")?);
    let v = optional_size(question, "v")?.unwrap_or(1);
    check_rows(&[pp, v, m])?;
    let mut answer = keep(question, &["schedule", "pp", "v", "m", "defer_pp_recv"]);
    let refusal = schedule.refusal(pp, v, m);
    answer.insert("reject".to_owned(), refusal.as_ref().map_or(Value::Null, |why| json!(["ValueError", why])));
    if refusal.is_some() {
        return Ok(answer);
    }
    let order = schedule.order(pp, v, m)?;
    let rows: Vec<String> = Grid::from(&order).rows.iter().map(|row| write_row(row)).collect();
    answer.insert("compute".to_owned(), json!(rows));
    if !schedule.is_single() {
        let placement = order.extent().placement;
        let ranks = (0..placement.n_stages()).map(|stage| placement.rank_of(Stage(stage)).0);
        answer.insert("stage_to_rank".to_owned(), ranks.collect());
    }
    Ok(answer)
}

/// A recorded answer without idle steps and marks.
pub(super) fn reduced(mut recorded: Map<String, Value>) -> Map<String, Value> {
    let is_work = |token: &str| !token.is_empty() && !MARKS.iter().any(|mark| token.ends_with(mark));
    reduce_rows(&mut recorded, "compute", is_work);
    recorded
}

/// Keeps some of the comma-separated tokens of each row.
pub(super) fn reduce_rows(recorded: &mut Map<String, Value>, field: &str, keep: impl Fn(&str) -> bool) {
    let Some(Value::Array(rows)) = recorded.get_mut(field) else { return };
    for row in rows {
        if let Value::String(text) = row {
            let tokens: Vec<&str> = text.split(',').filter(|token| keep(token)).collect();
            *text = tokens.join(",");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As torch 2.13 has them, without its idle steps.
    #[test]
    fn interleaved_runs_on_one_rank_too() {
        for (v, m, row) in [
            (1, 2, "0F0,0B0,0F1,0B1"),
            (2, 3, "0F0,1F0,1B0,0F1,0B0,1F1,1B1,0F2,0B1,1F2,1B2,0B2"),
            (3, 2, "0F0,1F0,2F0,2B0,0F1,1B0,1F1,0B0,2F1,2B1,1B1,0B1"),
            (4, 1, "0F0,1F0,2F0,3F0,3B0,2B0,1B0,0B0"),
        ] {
            let Value::Object(question) = json!({ "schedule": "Interleaved1F1B", "pp": 1, "v": v, "m": m }) else {
                panic!("an object")
            };
            let answer = answer(&question).expect("torch takes it");
            assert_eq!((&answer["compute"], &answer["reject"]), (&json!([row]), &Value::Null), "v {v}, m {m}");
            assert_eq!(answer["stage_to_rank"], json!(vec![0; v]));
        }
    }
}
