//! `dualpipe`: what DeepSeek's DualPipeV computes on one rank, in turn.

use anyhow::{Context, Result, bail};
use pp_schedule::{Rank, ScheduleConfig, ScheduleKind, ScheduleSpec, rank_order};
use serde_json::{Map, Value, json};

use super::fields::{check_rows, keep, optional_number, size, text};

/// The kinds of computation among the recorded events.
const COMPUTATIONS: [&str; 4] = ["F", "B", "I", "W"];

pub(super) fn judged(question: &Map<String, Value>) -> Result<Option<&'static [&'static str]>> {
    let refused = question.get("reject").is_some_and(|reject| !reject.is_null());
    Ok(match text(question, "schedule")? {
        "DualPipeV" if refused => Some(&["reject"]),
        "DualPipeV" => Some(&["reject", "ev"]),
        // Two pipelines in opposite directions, each with all parameters: no placement of ours.
        "DualPipe" => None,
        other => bail!("unknown schedule `{other}`; known: DualPipe, DualPipeV"),
    })
}

pub(super) fn answer(question: &Map<String, Value>) -> Result<Map<String, Value>> {
    if judged(question)?.is_none() {
        return Ok(keep(question, &["schedule", "pp", "n", "rank"]));
    }
    let (pp, n) = (size(question, "pp")?, size(question, "n")?);
    check_rows(&[2, pp, n])?;
    let mut answer = keep(question, &["schedule", "pp", "n", "rank"]);
    if n < 2 * pp {
        let why = format!("DualPipeV needs two microbatches per rank, but n is {n} and there are {pp} ranks");
        answer.insert("reject".to_owned(), json!(["AssertionError", why]));
        return Ok(answer);
    }
    let rank = optional_number(question, "rank")?.context("field `rank` is missing or null")?;
    if rank >= pp {
        bail!("field `rank` is {rank}, but there are ranks 0..{pp}");
    }
    let spec = ScheduleSpec { schedule: Some(ScheduleKind::DualPipeV), ..ScheduleSpec::new(pp, 2, n) };
    let config = ScheduleConfig::new(&spec)?;
    let events = rank_order(&config, Rank(rank)).into_iter().map(|work| {
        let chunk = config.placement().chunk_of(work.stage);
        json!([work.kind.letter().to_string(), chunk.0, work.microbatch.0])
    });
    answer.insert("reject".to_owned(), Value::Null);
    answer.insert("ev".to_owned(), events.collect());
    Ok(answer)
}

/// A recorded answer without communication and without the brackets around overlapped pairs.
pub(super) fn reduced(mut recorded: Map<String, Value>) -> Map<String, Value> {
    if let Some(Value::Array(events)) = recorded.get_mut("ev") {
        events.retain(|event| event[0].as_str().is_some_and(|name| COMPUTATIONS.contains(&name)));
    }
    recorded
}
