//! `megatron_tables`: schedule tables, counts per rank, and orders of chunks.

use anyhow::{Result, bail};
use pp_schedule::{Counts, CountsInput, Groups, Rank, ScheduleTable};
use serde_json::{Map, Value, json};

use super::fields::{check_rows, keep, optional_size, size, text};
use super::rejects::reject;

pub(super) fn judged(question: &Map<String, Value>) -> Result<Option<&'static [&'static str]>> {
    Ok(Some(match text(question, "kind")? {
        "table" => &["table"],
        "pp" => &["total", "ranks", "reject"],
        "order" => &["order"],
        other => bail!("unknown kind `{other}`; known: order, pp, table"),
    }))
}

pub(super) fn answer(question: &Map<String, Value>) -> Result<Map<String, Value>> {
    let kind = text(question, "kind")?;
    let (vp, m) = (optional_size(question, "vp")?, size(question, "m")?);
    let group_size = size(question, "N")?;
    let mut answer = keep(question, &["kind", "pp", "vp", "m", "N"]);
    match kind {
        "table" => {
            check_rows(&[vp.unwrap_or(1), m])?;
            let rows: Vec<[u32; 2]> =
                table(vp, m, group_size).entries().iter().map(|(mb, chunk)| [mb.0, chunk.0]).collect();
            answer.insert("table".to_owned(), json!(rows));
        }
        "pp" => {
            let pp = size(question, "pp")?;
            check_rows(&[pp, vp.unwrap_or(1)])?;
            check_rows(&[vp.unwrap_or(1), m])?;
            let counts: Vec<Counts> = counts(pp, vp, m, group_size).collect();
            answer.insert("total".to_owned(), json!(counts[0].total));
            answer.insert("reject".to_owned(), reject(pp, vp, m, Some(group_size)));
            answer.insert("ranks".to_owned(), counts.iter().map(counts_json).collect());
        }
        "order" => {
            let pp = size(question, "pp")?;
            check_rows(&[pp, vp.unwrap_or(1), m])?;
            let table = table(vp, m, group_size);
            let order = counts(pp, vp, m, group_size).map(|counts| table.signed_chunk_order(counts.warmup as usize));
            answer.insert("order".to_owned(), json!(order.collect::<Vec<_>>()));
        }
        other => bail!("unknown kind `{other}`; known: order, pp, table"),
    }
    Ok(answer)
}

fn table(vp: Option<u32>, m: u32, group_size: u32) -> ScheduleTable {
    ScheduleTable::new(m, vp.unwrap_or(1), Groups::Uniform { size: group_size })
}

fn counts(pp: u32, vp: Option<u32>, microbatches: u32, group_size: u32) -> impl Iterator<Item = Counts> {
    (0..pp).map(move |rank| {
        Counts::new(CountsInput { pp, rank: Rank(rank), vp, microbatches, group_size, forward_only: false })
    })
}

fn counts_json(counts: &Counts) -> Value {
    json!({
        "warmup": counts.warmup,
        "remaining": counts.remaining,
        "all_in_warmup": counts.all_in_warmup,
        "warmup_moe_overlap": counts.warmup_moe_overlap,
    })
}
