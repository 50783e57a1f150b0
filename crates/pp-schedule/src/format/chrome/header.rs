//! `otherData`: what a trace says about itself.

use std::io::{self, Write};

use serde::Deserialize;
use serde_json::Value;

use super::error::ChromeError;
use super::{FORMAT, Trace, VERSION};
use crate::config::MAX_CELLS;
use crate::order::Extent;
use crate::placement::{Placement, Shape};
use crate::simulate::Scale;

/// Writes the header of a trace whose ticks take `ns` nanoseconds.
pub(super) fn write(trace: &Trace<'_>, extent: Extent, ns: u64, out: &mut dyn Write) -> io::Result<()> {
    let (title, unit) = (quoted(&trace.title)?, quoted(&trace.scale.unit)?);
    let Extent { placement, microbatches, forward_only } = extent;
    let (pp, vp, shape) = (placement.n_ranks(), placement.n_chunks(), placement.shape().name());
    let ns_per_unit = trace.scale.ticks_per_unit * ns as f64;
    write!(
        out,
        "{{\"format\":\"{FORMAT}\",\"version\":{VERSION},\"title\":{title},\"pp\":{pp},\"vp\":{vp},\
         \"placement\":\"{shape}\",\"microbatches\":{microbatches},\"forward_only\":{forward_only},\
         \"unit\":{unit},\"ns_per_unit\":{ns_per_unit},\"steps\":["
    )?;
    for (number, step) in trace.steps.iter().enumerate() {
        let comma = if number > 0 { "," } else { "" };
        write!(out, "{comma}{{\"step\":{},\"start_ns\":{}}}", step.number, step.start.saturating_mul(ns))?;
    }
    out.write_all(b"]}")
}

/// A JSON string.
pub(super) fn quoted(text: &str) -> io::Result<String> {
    serde_json::to_string(text).map_err(io::Error::from)
}

/// What was read of it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Header {
    pub(super) title: String,
    pub(super) extent: Extent,
    pub(super) scale: Scale,
    /// Number and start of the steps that it names.
    pub(super) steps: Vec<(u32, u64)>,
}

/// The fields as they stand; each is checked by hand, for its error to say what was found and what should be there.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Raw {
    format: Value,
    version: Value,
    title: Value,
    pp: Value,
    vp: Value,
    placement: Value,
    microbatches: Value,
    forward_only: Value,
    unit: Value,
    ns_per_unit: Value,
    steps: Value,
}

impl Raw {
    pub(super) fn check(&self) -> Result<Header, ChromeError> {
        if self.format.as_str() != Some(FORMAT) {
            return Err(wrong("format", &self.format, format!("`{FORMAT}`")));
        }
        if self.version.as_u64() != Some(VERSION) {
            return Err(wrong("version", &self.version, VERSION));
        }
        let (pp, vp) = (positive("pp", &self.pp)?, positive("vp", &self.vp)?);
        let microbatches = positive("microbatches", &self.microbatches)?;
        let cells = u64::from(pp).checked_mul(u64::from(vp)).and_then(|n| n.checked_mul(u64::from(microbatches)));
        if cells.is_none_or(|cells| cells > MAX_CELLS) {
            let expected = format!("so few that pp * vp * microbatches is at most {MAX_CELLS}");
            return Err(wrong("microbatches", &self.microbatches, expected));
        }
        let shape = match (self.placement.as_str(), vp) {
            (Some("loop"), _) => Shape::Loop,
            (Some("v"), _) => Shape::V,
            _ => return Err(wrong("placement", &self.placement, "`loop` or `v`")),
        };
        let forward_only = match self.forward_only {
            Value::Null => false,
            Value::Bool(forward_only) => forward_only,
            ref other => return Err(wrong("forward_only", other, "true or false")),
        };
        let extent = Extent { placement: Placement::shaped(shape, pp, vp), microbatches, forward_only };
        let title = self.title.as_str().unwrap_or_default().to_owned();
        Ok(Header { title, extent, scale: self.scale()?, steps: self.steps()? })
    }

    /// Milliseconds unless something else is said.
    fn scale(&self) -> Result<Scale, ChromeError> {
        let ticks_per_unit = match &self.ns_per_unit {
            Value::Null => 1e6,
            value => value
                .as_f64()
                .filter(|ns| *ns > 0.0)
                .ok_or_else(|| wrong("ns_per_unit", value, "nanoseconds, more than 0"))?,
        };
        Ok(Scale { ticks_per_unit, unit: self.unit.as_str().unwrap_or("ms").to_owned() })
    }

    fn steps(&self) -> Result<Vec<(u32, u64)>, ChromeError> {
        let expected = "an array of {\"step\":N,\"start_ns\":N}";
        let steps = match &self.steps {
            Value::Null => return Ok(Vec::new()),
            Value::Array(steps) => steps,
            other => return Err(wrong("steps", other, expected)),
        };
        let step = |step: &Value| {
            let number = step.get("step")?.as_u64()?.try_into().ok()?;
            Some((number, step.get("start_ns")?.as_u64()?))
        };
        steps.iter().map(|value| step(value).ok_or_else(|| wrong("steps", value, expected))).collect()
    }
}

fn positive(field: &'static str, value: &Value) -> Result<u32, ChromeError> {
    let number = value.as_u64().and_then(|number| u32::try_from(number).ok()).filter(|number| *number > 0);
    number.ok_or_else(|| wrong(field, value, "a whole number from 1 on"))
}

fn wrong(field: &'static str, found: &Value, expected: impl ToString) -> ChromeError {
    let found = match found {
        Value::Null => "missing".to_owned(),
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        other => format!("`{}`", other.to_string().chars().take(40).collect::<String>()),
    };
    ChromeError::Header { field, found, expected: expected.to_string() }
}
