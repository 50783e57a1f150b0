//! `megatron_rejects`: whether interleaved 1F1B accepts a configuration.

use anyhow::{Result, bail};
use pp_schedule::{ConfigError, ScheduleConfig, ScheduleKind, ScheduleSpec};
use serde_json::{Map, Value, json};

use super::fields::{keep, optional_size, size, text};

pub(super) fn judged(question: &Map<String, Value>) -> Result<Option<&'static [&'static str]>> {
    Ok(match text(question, "kind")? {
        "sweep" => Some(&["reject"]),
        // Refusals met elsewhere, without a configuration.
        "trace_grid" => None,
        other => bail!("unknown kind `{other}`; known: sweep, trace_grid"),
    })
}

pub(super) fn answer(question: &Map<String, Value>) -> Result<Map<String, Value>> {
    match text(question, "kind")? {
        "sweep" => {
            let (pp, m) = (size(question, "pp")?, size(question, "m")?);
            let vp = optional_size(question, "vp")?;
            let mut answer = keep(question, &["kind", "pp", "vp", "m", "N"]);
            answer.insert("reject".to_owned(), reject(pp, vp, m, optional_size(question, "N")?));
            Ok(answer)
        }
        // It asks nothing, so there is nothing to add.
        "trace_grid" => Ok(question.clone()),
        other => bail!("unknown kind `{other}`; known: sweep, trace_grid"),
    }
}

/// Null, or `[kind of error, message]`. Only a virtual pipeline over several ranks has a rule to break.
pub(super) fn reject(pp: u32, vp: Option<u32>, m: u32, group_size: Option<u32>) -> Value {
    let Some(vp) = vp.filter(|_| pp > 1) else { return Value::Null };
    let schedule = Some(ScheduleKind::Interleaved);
    match ScheduleConfig::new(&ScheduleSpec { schedule, group_size, ..ScheduleSpec::new(pp, vp, m) }) {
        Ok(_) => Value::Null,
        Err(error) => {
            let kind = match error {
                ConfigError::Remainder { .. } => "RuntimeError",
                _ => "ValueError",
            };
            json!([kind, error.to_string()])
        }
    }
}
