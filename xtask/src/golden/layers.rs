//! `megatron_layers`: which layers each rank and chunk gets, and how layout strings are read.

use anyhow::{Context, Result, bail};
use pp_schedule::layout::{LayoutPattern, LayoutSpec, PatternError};
use serde_json::{Map, Value, json};

use super::fields::{flag, keep, optional_number, optional_size, size, text};

const QUESTION: [&str; 11] = ["kind", "L", "pp", "vp", "first", "last", "emb", "loss", "layout", "mtp", "str"];

/// Left out are lines where the library crashes, and those on one rank whose settings it ignores.
pub(super) fn judged(question: &Map<String, Value>) -> Result<Option<&'static [&'static str]>> {
    let is_set = |name| question.get(name).is_some_and(|value| !value.is_null());
    Ok(match text(question, "kind")? {
        "parse" => Some(&["rows", "reject"]),
        "assign" => {
            let one_rank = question.get("pp") == Some(&json!(1));
            let ignored = one_rank && (is_set("vp") || (is_set("first") && is_set("last")));
            let crash = question.get("reject").and_then(|reject| reject.get(1)) == Some(&json!("ZeroDivisionError"));
            match (ignored || crash, is_set("reject")) {
                (true, _) => None,
                (false, true) => Some(&["reject"]),
                (false, false) => Some(&["reject", "n", "off"]),
            }
        }
        other => bail!("unknown kind `{other}`; known: assign, parse"),
    })
}

pub(super) fn answer(question: &Map<String, Value>) -> Result<Map<String, Value>> {
    let mut answer = keep(question, &QUESTION);
    match text(question, "kind")? {
        "parse" => {
            let (rows, reject) = match text(question, "str")?.parse::<LayoutPattern>() {
                Ok(pattern) => (rows(&pattern), Value::Null),
                Err(error) => (Value::Null, json!(["ValueError", error.to_string()])),
            };
            answer.insert("rows".to_owned(), rows);
            answer.insert("reject".to_owned(), reject);
        }
        "assign" => match assign(question)? {
            Ok((n, off)) => {
                answer.insert("reject".to_owned(), Value::Null);
                answer.insert("n".to_owned(), n);
                answer.insert("off".to_owned(), off);
            }
            Err(refusal) => {
                answer.insert("reject".to_owned(), json!(["config", "ValueError", refusal]));
            }
        },
        other => bail!("unknown kind `{other}`; known: assign, parse"),
    }
    Ok(answer)
}

/// The counts and offsets by rank and chunk, or why it is refused.
fn assign(question: &Map<String, Value>) -> Result<Result<(Value, Value), String>> {
    let layout = match layout(question)? {
        None => None,
        Some(Ok(pattern)) => Some(pattern),
        Some(Err(error)) => return Ok(Err(error.to_string())),
    };
    let spec = LayoutSpec {
        n_layers: optional_number(question, "L")?.context("field `L` is missing or null")?,
        pp: size(question, "pp")?,
        vp: optional_size(question, "vp")?,
        first: optional_number(question, "first")?,
        last: optional_number(question, "last")?,
        account_for_embedding: flag(question, "emb")?.unwrap_or(false),
        account_for_loss: flag(question, "loss")?.unwrap_or(false),
        layout,
        mtp_layers: optional_number(question, "mtp")?,
    };
    Ok(match spec.resolve() {
        // On one rank the library starts every chunk of a layout at layer 0; ours to run does not (`LayerPartition`).
        Ok(assignment) if spec.pp == 1 && spec.layout.is_some() => {
            let off: Vec<Vec<i64>> = assignment.off().iter().map(|chunks| vec![0; chunks.len()]).collect();
            Ok((json!(assignment.n()), json!(off)))
        }
        Ok(assignment) => Ok((json!(assignment.n()), json!(assignment.off()))),
        Err(error) => Err(error.to_string()),
    })
}

/// A layout given as a string, or as a list of layer names per stage.
fn layout(question: &Map<String, Value>) -> Result<Option<Result<LayoutPattern, PatternError>>> {
    match question.get("layout") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(pattern)) => Ok(Some(pattern.parse())),
        Some(list) => {
            let stages: Vec<Vec<String>> =
                serde_json::from_value(list.clone()).context("field `layout` is neither text nor lists of names")?;
            Ok(Some(LayoutPattern::from_names(&stages)))
        }
    }
}

fn rows(pattern: &LayoutPattern) -> Value {
    pattern.rows().iter().map(|row| row.iter().map(|layer| json!(layer.name())).collect::<Value>()).collect()
}
