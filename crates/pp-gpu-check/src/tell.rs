//! How the process of a part tells what it finds, at once and line by line: what it told stays known when it hangs or dies.

use std::io::{self, Write};
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::report::{Check, DeviceFacts, Figure, Outcome};

/// Stands before each line of ours: libraries print to standard output too.
const MARK: &str = "pp-gpu-check: ";

/// A line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Line {
    /// A check that begins: what is said to have failed if no more comes.
    Begin(String),
    /// A check that is done.
    Check(Check),
    /// The GPU.
    Device(DeviceFacts),
    /// Something that was measured.
    Figure(Figure),
    /// How two ranks can share the GPU, for the parts that follow.
    Way(String),
    /// One rank's word to the part it belongs to: why NCCL said no, where that is an answer.
    Refused(String),
}

impl Line {
    /// From a line of a process's standard output; none where it is not ours.
    pub fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text.trim_end().strip_prefix(MARK)?).ok()
    }

    fn tell(&self) -> anyhow::Result<()> {
        let text = serde_json::to_string(self)?;
        let mut out = io::stdout().lock();
        writeln!(out, "{MARK}{text}")?;
        out.flush()?;
        Ok(())
    }
}

/// What a check comes to when nothing is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// As it should be, with what was seen.
    Passed(String),
    /// It cannot be made here: why.
    Skipped(String),
}

/// Makes a check and tells what came of it. An error is a failure, with all its causes; the caller goes on.
///
/// # Errors
/// Nobody listens any more.
pub fn check(name: &str, body: impl FnOnce() -> anyhow::Result<Verdict>) -> anyhow::Result<Outcome> {
    Line::Begin(name.to_owned()).tell()?;
    let start = Instant::now();
    let (outcome, detail) = match body() {
        Ok(Verdict::Passed(seen)) => (Outcome::Passed, seen),
        Ok(Verdict::Skipped(why)) => (Outcome::Skipped, why),
        Err(error) => (Outcome::Failed, format!("{error:#}")),
    };
    let took_s = start.elapsed().as_secs_f64();
    Line::Check(Check { name: name.to_owned(), outcome, detail, took_s }).tell()?;
    Ok(outcome)
}

/// Tells of the GPU.
///
/// # Errors
/// Nobody listens any more.
pub fn device(facts: DeviceFacts) -> anyhow::Result<()> {
    Line::Device(facts).tell()
}

/// Tells of something that was measured.
///
/// # Errors
/// Nobody listens any more.
pub fn figure(name: &str, value: f64, unit: &str, how: &str) -> anyhow::Result<()> {
    let [name, unit, how] = [name, unit, how].map(str::to_owned);
    Line::Figure(Figure { name, value, unit, how }).tell()
}

/// Tells how two ranks can share the GPU.
///
/// # Errors
/// Nobody listens any more.
pub fn way(name: &str) -> anyhow::Result<()> {
    Line::Way(name.to_owned()).tell()
}

/// Tells the part that this process belongs to why NCCL said no.
///
/// # Errors
/// Nobody listens any more.
pub fn refused(why: &str) -> anyhow::Result<()> {
    Line::Refused(why.to_owned()).tell()
}

/// Passes on what another process of this program told, as if it were this one's.
///
/// # Errors
/// Nobody listens any more.
pub fn again(line: &Line) -> anyhow::Result<()> {
    line.tell()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_of_ours_are_read() {
        let text = format!("{MARK}{}", r#"{"begin":"matmul"}"#);
        assert_eq!(Line::parse(&text), Some(Line::Begin("matmul".to_owned())));
        assert_eq!(Line::parse("NCCL version 2.30.4"), None);
        assert_eq!(Line::parse(&format!("{MARK}{{")), None);
    }
}
