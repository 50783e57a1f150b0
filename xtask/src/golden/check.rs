//! Comparison of a golden file with the product's answers.

use std::fmt;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use flate2::read::GzDecoder;
use serde_json::{Map, Value};

use super::{Stem, answer_line, beaten, judged, reduced};

/// How a golden file compares.
#[derive(Debug)]
pub struct Report {
    /// Lines that were compared.
    pub compared: usize,
    /// Lines that ask nothing.
    pub skipped: usize,
    /// The first line that differs, described.
    pub first_difference: Option<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.first_difference {
            None => write!(f, "{} lines equal, {} without a question", self.compared, self.skipped),
            Some(difference) => write!(f, "differs after {} equal lines\n{difference}", self.compared),
        }
    }
}

/// Compares a file, `NAME.jsonl` or `NAME.jsonl.gz`, whose name is a [`Stem`].
///
/// # Errors
/// When the file cannot be read or is no golden file.
pub fn check_file(path: &Path) -> Result<Report> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let stem = name.split('.').next().unwrap_or_default().parse().with_context(|| format!("{}", path.display()))?;
    check_lines(stem, &read_lines(path)?).with_context(|| format!("{}", path.display()))
}

/// The text of a file, unpacked if its name ends in `.gz`.
///
/// # Errors
/// When the file cannot be read or unpacked.
pub fn read_lines(path: &Path) -> Result<String> {
    let file = BufReader::new(File::open(path).with_context(|| format!("cannot open {}", path.display()))?);
    let mut text = String::new();
    let packed = path.extension().is_some_and(|extension| extension == "gz");
    let read = if packed { GzDecoder::new(file).read_to_string(&mut text) } else { { file }.read_to_string(&mut text) };
    read.with_context(|| format!("cannot read {}", path.display()))?;
    Ok(text)
}

/// Compares the lines of a golden file, up to the first that differs.
///
/// # Errors
/// When a line is no question, naming it.
pub fn check_lines(stem: Stem, text: &str) -> Result<Report> {
    let mut report = Report { compared: 0, skipped: 0, first_difference: None };
    for (number, line) in text.lines().enumerate() {
        let recorded: Map<String, Value> =
            serde_json::from_str(line).with_context(|| format!("line {}: not a JSON object", number + 1))?;
        let fields = judged(stem, &recorded).with_context(|| format!("line {}", number + 1))?;
        let Some(fields) = fields else {
            report.skipped += 1;
            continue;
        };
        let recorded = reduced(stem, recorded);
        let ours = answer_line(stem, line).with_context(|| format!("line {}", number + 1))?;
        for field in fields {
            let recorded = recorded.get(*field).ok_or_else(|| anyhow!("line {}: no field `{field}`", number + 1))?;
            let ours_field = ours.get(*field).unwrap_or(&Value::Null);
            if let Some(difference) = difference(field, recorded, ours_field) {
                let question = ours.iter().filter(|(name, _)| !fields.contains(&name.as_str()));
                let question: Vec<String> = question.map(|(name, value)| format!("{name} {value}")).collect();
                report.first_difference = Some(format!("line {} ({}): {difference}", number + 1, question.join(", ")));
                return Ok(report);
            }
        }
        if let Some(beaten) = beaten(stem, &recorded, &ours).with_context(|| format!("line {}", number + 1))? {
            let question: Vec<String> = ours
                .iter()
                .filter(|(_, value)| !value.is_array())
                .map(|(name, value)| format!("{name} {value}"))
                .collect();
            report.first_difference = Some(format!("line {} ({}): {beaten}", number + 1, question.join(", ")));
            return Ok(report);
        }
        report.compared += 1;
    }
    if report.compared == 0 {
        bail!("it holds no question to compare");
    }
    Ok(report)
}

/// Where two values part, with what stands before it; a `reject` is only null or not.
fn difference(field: &str, recorded: &Value, ours: &Value) -> Option<String> {
    if field == "reject" {
        let differ = recorded.is_null() != ours.is_null();
        return differ.then(|| format!("reject: recorded {recorded}, ours {ours}"));
    }
    if recorded == ours {
        return None;
    }
    let (Some(recorded_items), Some(our_items)) = (recorded.as_array(), ours.as_array()) else {
        return Some(format!("{field}: recorded {recorded}, ours {ours}"));
    };
    let at = recorded_items.iter().zip(our_items).position(|(a, b)| a != b);
    let at = at.unwrap_or(recorded_items.len().min(our_items.len()));
    let (recorded, ours) = (recorded_items.get(at), our_items.get(at));
    let nested = match (recorded, ours) {
        (Some(recorded), Some(ours)) if recorded.is_array() && ours.is_array() => {
            difference(&format!("{field}[{at}]"), recorded, ours)
        }
        _ => None,
    };
    Some(nested.unwrap_or_else(|| {
        let before: Vec<String> = our_items[at.saturating_sub(3)..at].iter().map(Value::to_string).collect();
        let text = |value: Option<&Value>| value.map_or_else(|| "the end".to_owned(), Value::to_string);
        format!("{field}[{at}]: recorded {}, ours {} (after {})", text(recorded), text(ours), before.join(" "))
    }))
}
