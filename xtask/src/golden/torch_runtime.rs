//! `torch_runtime`: the computations of torch's schedules with one stage per rank, as they ran.

use anyhow::{Result, bail};
use pp_schedule::Work;
use serde_json::{Map, Value, json};

use super::fields::{check_rows, keep, size};
use super::torch_orders::{TorchSchedule, reduce_rows};

pub(super) fn judged(question: &Map<String, Value>) -> Result<Option<&'static [&'static str]>> {
    TorchSchedule::of(question)?;
    let refused = question.get("reject").is_some_and(|reject| !reject.is_null());
    Ok(Some(if refused { &["reject"] } else { &["reject", "runtime"] }))
}

pub(super) fn answer(question: &Map<String, Value>) -> Result<Map<String, Value>> {
    let schedule = TorchSchedule::of(question)?;
    if !schedule.is_single() {
        bail!(
            "only GPipe and 1F1B, which have one stage per rank, are asked for here; ask torch_orders for the others"
        );
    }
    let (pp, m) = (size(question, "pp")?, size(question, "m")?);
    check_rows(&[pp, m])?;
    let mut answer = keep(question, &["schedule", "pp", "m"]);
    let refusal = schedule.refusal(pp, 1, m);
    answer.insert("reject".to_owned(), refusal.as_ref().map_or(Value::Null, |why| json!(["ValueError", why])));
    if refusal.is_none() {
        let order = schedule.order(pp, 1, m)?;
        let text = |row: &Vec<Work>| row.iter().map(Work::to_string).collect::<Vec<_>>().join(",");
        answer.insert("runtime".to_owned(), order.rows().iter().map(text).collect());
    }
    Ok(answer)
}

/// A recorded answer without communication and marks. Transfers that were issued or waited for together stand in brackets.
pub(super) fn reduced(mut recorded: Map<String, Value>) -> Map<String, Value> {
    reduce_rows(&mut recorded, "runtime", |token| token.parse::<Work>().is_ok());
    recorded
}
