//! `megatron_traces` and its variants: what Megatron's schedules are seen to do on one rank.

use anyhow::{Result, bail};
use pp_schedule::lower::megatron::{self, Event, Issue, Method, Op, OpKind, Options, Overlap, Phase, SendRelease};
use pp_schedule::{Mark, Rank, ScheduleConfig, ScheduleKind, ScheduleSpec, figures};
use serde_json::{Map, Value, json};

use super::fields::{check_rows, flag, keep, optional_number, optional_size, size, text};

const QUESTION: [&str; 13] =
    ["fn", "pp", "rank", "vp", "m", "N", "fwd_only", "overlap", "flush", "batched", "dealloc", "sync_funcs", "ckpt"];

pub(super) fn judged(question: &Map<String, Value>) -> Result<Option<&'static [&'static str]>> {
    Ok(Some(match text(question, "fn")? {
        "interleaved" => &["total", "warmup", "remaining", "all_in_warmup", "ev"],
        "1f1b" | "nopipe" => &["ev"],
        other => bail!("unknown fn `{other}`; known: 1f1b, interleaved, nopipe"),
    }))
}

pub(super) fn answer(question: &Map<String, Value>, release: SendRelease) -> Result<Map<String, Value>> {
    let config = config(question)?;
    let rank = optional_number(question, "rank")?.unwrap_or(0);
    if rank >= config.pp() {
        bail!("field `rank` is {rank}, but there are ranks 0..{}", config.pp());
    }
    let (program, view) = megatron::trace(&config, options(question, release)?, Rank(rank))?;
    let mut answer = keep(question, &QUESTION);
    if config.kind() == ScheduleKind::Interleaved {
        let counts = figures::counts(&config, Rank(rank));
        answer.insert("total".to_owned(), json!(counts.total));
        answer.insert("warmup".to_owned(), json!(counts.warmup));
        answer.insert("remaining".to_owned(), json!(counts.remaining));
        answer.insert("all_in_warmup".to_owned(), json!(counts.all_in_warmup));
    }
    answer.insert("ev".to_owned(), view.events(&program).iter().map(event).collect());
    Ok(answer)
}

fn config(question: &Map<String, Value>) -> Result<ScheduleConfig> {
    let (pp, m) = (size(question, "pp")?, size(question, "m")?);
    let vp = optional_size(question, "vp")?.unwrap_or(1);
    check_rows(&[vp, m])?;
    let (schedule, group_size) = match text(question, "fn")? {
        "nopipe" => (ScheduleKind::NoPipelining, None),
        "1f1b" => (ScheduleKind::OneFOneB, None),
        "interleaved" => (ScheduleKind::Interleaved, optional_size(question, "N")?),
        other => bail!("unknown fn `{other}`; known: 1f1b, interleaved, nopipe"),
    };
    let forward_only = flag(question, "fwd_only")?.unwrap_or(false);
    let spec = ScheduleSpec { schedule: Some(schedule), group_size, forward_only, ..ScheduleSpec::new(pp, vp, m) };
    Ok(ScheduleConfig::new(&spec)?)
}

fn options(question: &Map<String, Value>, release: SendRelease) -> Result<Options> {
    let set = |name| flag(question, name);
    let overlap = match (set("overlap")?.unwrap_or(false), set("flush")?.unwrap_or(false)) {
        (true, true) => Overlap::WarmupFlush,
        (true, false) => Overlap::Steady,
        (false, false) => Overlap::Off,
        (false, true) => bail!("`flush` is set without `overlap`: warmup and flush overlap only with the steady phase"),
    };
    let batched = set("batched")?.unwrap_or(overlap == Overlap::Off);
    Ok(Options {
        issue: if batched { Issue::Batched } else { Issue::EvenOdd },
        overlap,
        deallocate: set("dealloc")?.unwrap_or(true),
        sync_functions: set("sync_funcs")?.unwrap_or(false),
        partial_checkpoints: optional_number(question, "ckpt")?,
        release,
    })
}

fn event(event: &Event) -> Value {
    match event {
        Event::Forward(chunk, microbatch, None) => json!(["F", chunk.0, microbatch.0]),
        Event::Forward(chunk, microbatch, Some(full)) => json!(["F", chunk.0, microbatch.0, full]),
        Event::Backward(chunk, microbatch) => json!(["B", chunk.0, microbatch.0]),
        Event::Call(method, ops, returns_early) => {
            let ops: Vec<Value> = ops.iter().map(|op| json!([op_code(op), op.chunk.0, op.microbatch.0])).collect();
            json!(["P2P", method_code(*method), ops, u8::from(*returns_early)])
        }
        Event::Wait(op) => json!(["W", op_code(op), op.chunk.0, op.microbatch.0]),
        Event::Free(None) => json!(["D"]),
        Event::Free(Some((chunk, microbatch))) => json!(["D", chunk.0, microbatch.0]),
        Event::Phase(phase) => json!(["PH", phase_name(*phase)]),
        Event::Mark(Mark::SyncOff) => json!(["NS+"]),
        Event::Mark(Mark::SyncOn) => json!(["NS-"]),
        Event::Mark(Mark::SyncGradients(chunk)) => json!(["GS", chunk.0]),
        Event::Mark(Mark::SyncParameters(chunk)) => json!(["PS", chunk.0]),
        Event::Mark(Mark::Finalize) => json!(["FIN"]),
    }
}

const fn op_code(op: &Op) -> &'static str {
    match op.kind {
        OpKind::SendNext => "sn",
        OpKind::ReceivePrevious => "rp",
        OpKind::SendPrevious => "sp",
        OpKind::ReceiveNext => "rn",
    }
}

const fn method_code(method: Method) -> &'static str {
    match method {
        Method::RecvForward => "rf",
        Method::RecvBackward => "rb",
        Method::SendForward => "sf",
        Method::SendBackward => "sb",
        Method::SendForwardRecvBackward => "sf_rb",
        Method::SendBackwardRecvForward => "sb_rf",
        Method::SendForwardRecvForward => "sf_rf",
        Method::SendBackwardRecvBackward => "sb_rb",
        Method::SendBothRecvBoth => "sfb_rfb",
    }
}

const fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Warmup => "warmup",
        Phase::Steady => "steady",
        Phase::Cooldown => "cooldown",
        Phase::Misc => "misc",
    }
}
