//! `zb`: the zero-bubble orders of sail-sg's zero-bubble-pipeline-parallelism, whose length is compared and nothing else.
//!
//! Both orders, theirs as recorded and ours as searched, are played out by this project's simulator under the question's
//! costs. Ours must not be longer, and must not hold more than the limit. `zb` states its limit; for the V's schedules it is a
//! rule read off what they hold ([`limits`]), so there ours must not hold more than theirs either.

use anyhow::{Context, Result, bail};
use pp_schedule::simulate::{Costs, Link, StageCosts, Timeline};
use pp_schedule::synth::{Problem, limits, search};
use pp_schedule::{Chunk, Extent, Microbatch, Order, Placement, Rank, Work, WorkKind};
use serde_json::{Map, Value, json};

use super::fields::{keep, size, text};

const QUESTION: [&str; 7] = ["schedule", "pp", "m", "cost", "mem_limit", "chunks", "group_size"];

/// No field is compared as such: [`beaten`] judges.
pub(super) fn judged(question: &Map<String, Value>) -> Result<Option<&'static [&'static str]>> {
    Ok(match text(question, "schedule")? {
        "zb" | "zbv" | "zbv_greedy_min" | "zbv_greedy_half" => Some(&[]),
        // Compared elsewhere (1F1B, interleaved), or not searched for.
        "v1f1b" | "basic1f1b" | "vpp" | "group_interleaved" => None,
        other => bail!("unknown schedule `{other}`; known: zb, zbv, zbv_greedy_half, zbv_greedy_min"),
    })
}

pub(super) fn answer(question: &Map<String, Value>) -> Result<Map<String, Value>> {
    let mut answer = keep(question, &QUESTION);
    if judged(question)?.is_none() {
        return Ok(answer);
    }
    let problem = problem(question)?;
    let solution = search(&problem)?;
    let placement = solution.placement;
    let row = |row: &Vec<Work>| row.iter().map(|&work| token(work, placement)).collect::<Vec<_>>().join(",");
    answer.insert("reject".to_owned(), Value::Null);
    answer.insert("compute".to_owned(), solution.rows.iter().map(row).collect());
    answer.insert("end_time".to_owned(), json!(solution.makespan));
    answer.insert("makespan".to_owned(), json!(solution.makespan));
    answer.insert("lower_bound".to_owned(), json!(solution.lower_bound));
    answer.insert("peak".to_owned(), json!(solution.peak));
    Ok(answer)
}

/// In what our order is worse than the recorded one, if it is.
pub(super) fn beaten(recorded: &Map<String, Value>, ours: &Map<String, Value>) -> Result<Option<String>> {
    let problem = problem(recorded)?;
    let (theirs, their_peak) = measure(recorded, &problem).context("recorded")?;
    let (ours, our_peak) = measure(ours, &problem).context("ours")?;
    if ours > theirs {
        return Ok(Some(format!("makespan: recorded {theirs}, ours {ours}, which is longer")));
    }
    let limit = problem.memory.unwrap_or(u64::MAX);
    let most = if problem.n_chunks == 2 { limit.min(their_peak) } else { limit };
    let held = || format!("half-activations held at most: recorded {their_peak}, limit {limit}, ours {our_peak}");
    Ok((our_peak > most).then(held))
}

/// The question's problem. The limit depends on the schedule's name, `pp` and `mem_limit`, and on nothing recorded.
fn problem(question: &Map<String, Value>) -> Result<Problem> {
    let schedule = text(question, "schedule")?;
    let (pp, microbatches) = (size(question, "pp")?, size(question, "m")?);
    let cost = question.get("cost").and_then(Value::as_array).context("field `cost` is missing or no list")?;
    let cost: Vec<u64> = cost.iter().filter_map(whole).collect();
    let [forward, backward_input, backward_weight, latency] = cost[..] else {
        bail!("field `cost` must be four whole numbers: forward, input gradient, weight gradient, communication");
    };
    let memory = match schedule {
        "zb" => match question.get("mem_limit") {
            None | Some(Value::Null) => None,
            Some(Value::String(limit)) if limit == "none" => None,
            Some(Value::String(limit)) if limit == "1p" => Some(limits::zb_h1(pp)),
            Some(Value::String(limit)) if limit == "2p" => Some(limits::zb_2p(pp)),
            Some(other) => bail!("field `mem_limit` is {other}; known: none, 1p, 2p"),
        },
        "zbv_greedy_half" => Some(limits::v_half(pp)),
        "zbv_greedy_min" => Some(limits::v_min(pp)),
        _ => Some(limits::zb_v(pp)),
    };
    let n_chunks = if schedule == "zb" { 1 } else { 2 };
    Ok(Problem { pp, n_chunks, microbatches, forward, backward_input, backward_weight, latency, memory })
}

/// A whole number, also where it is written with a point.
fn whole(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_f64().filter(|number| number.fract() == 0.0 && *number >= 0.0).map(|n| n as u64))
}

/// An order's makespan and the most half-activations any rank holds.
fn measure(line: &Map<String, Value>, problem: &Problem) -> Result<(u64, u64)> {
    let placement = if problem.n_chunks == 2 { Placement::v(problem.pp) } else { Placement::looped(problem.pp, 1) };
    let rows = line.get("compute").and_then(Value::as_array).context("field `compute` is missing or no list")?;
    let row = |(rank, row): (u32, &Value)| -> Result<Vec<Work>> {
        let row = row.as_str().context("a row of `compute` is no text")?;
        row.split(',').map(|token| work(token, Rank(rank), placement)).collect()
    };
    let rows: Vec<Vec<Work>> = (0..problem.pp).zip(rows).map(row).collect::<Result<_>>()?;
    let peak = rows.iter().map(|row| peak(row)).max().unwrap_or(0);
    let order = Order::new(Extent { placement, microbatches: problem.microbatches, forward_only: false }, rows)?;
    let costs = Costs::uniform(StageCosts {
        forward: problem.forward,
        backward: problem.backward_input + problem.backward_weight,
        backward_input: problem.backward_input,
        backward_weight: problem.backward_weight,
    });
    let costs = costs.with_link(Link { latency: problem.latency, transfer: 0 });
    Ok((Timeline::of_order(&order, &costs)?.makespan(), peak))
}

fn peak(row: &[Work]) -> u64 {
    let mut held = 0_u64;
    let held = row.iter().map(|work| {
        held = match work.kind {
            WorkKind::Forward => held + 2,
            WorkKind::Backward => held.saturating_sub(2),
            WorkKind::BackwardInput | WorkKind::BackwardWeight => held.saturating_sub(1),
        };
        held
    });
    held.max().unwrap_or(0)
}

/// `F0`, `B0.1`: kind, microbatch and, if it is not 0, the chunk.
fn token(work: Work, placement: Placement) -> String {
    let kind = match work.kind {
        WorkKind::Forward => "F",
        WorkKind::Backward => "BW",
        WorkKind::BackwardInput => "B",
        WorkKind::BackwardWeight => "W",
    };
    match placement.chunk_of(work.stage).0 {
        0 => format!("{kind}{}", work.microbatch),
        chunk => format!("{kind}{}.{chunk}", work.microbatch),
    }
}

/// What a token says; the peer that follows an `@` is left out.
fn work(token: &str, rank: Rank, placement: Placement) -> Result<Work> {
    let parse = || {
        let token = token.split('@').next()?;
        let at = token.find(|c: char| c.is_ascii_digit())?;
        let kind = match &token[..at] {
            "F" => WorkKind::Forward,
            "B" => WorkKind::BackwardInput,
            "W" => WorkKind::BackwardWeight,
            "BW" => WorkKind::Backward,
            _ => return None,
        };
        let (microbatch, chunk) = token[at..].split_once('.').unwrap_or((&token[at..], "0"));
        let chunk: u32 = chunk.parse().ok().filter(|&chunk| chunk < placement.n_chunks())?;
        let stage = placement.stage_of(rank, Chunk(chunk));
        Some(Work { kind, stage, microbatch: Microbatch(microbatch.parse().ok()?) })
    };
    parse().with_context(|| format!("`{token}` is no computation"))
}
