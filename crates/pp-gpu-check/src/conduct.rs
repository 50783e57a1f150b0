//! All parts, one after the other, each in a process of its own, whatever becomes of the others.

use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};

use crate::budget::{PartName, TOTAL};
use crate::child::{Ended, Running};
use crate::report::{Check, Ground, Outcome, Part, Report};
use crate::tell::Line;

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// What to run on.
    pub ground: Ground,
    /// Which GPU.
    pub device: u32,
    /// Which parts.
    pub parts: &'a [PartName],
}

/// Tells the parts that follow how two ranks can share the GPU.
pub const WAY: &str = "PP_GPU_CHECK_WAY";
/// Name of the check that stands for a part whose process ends badly between checks.
const PROCESS: &str = "the part's process";

/// Runs the parts; `hear` is told each check as it is done.
///
/// # Errors
/// No process of this program can be started at all.
pub fn conduct(plan: Plan<'_>, mut hear: impl FnMut(PartName, &Check)) -> Result<Report> {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let start = Instant::now();
    let mut report = Report::new(plan.ground, since_epoch.as_secs(), 0.0, None);
    let mut way = None;
    for &part in plan.parts {
        let left = TOTAL.saturating_sub(start.elapsed());
        let done = run(plan, (part, part.budget().min(left)), (&mut report, &mut way), &mut |check| hear(part, check))?;
        report.add(done);
    }
    report.took_s = start.elapsed().as_secs_f64();
    Ok(report)
}

fn run(
    plan: Plan<'_>,
    (name, limit): (PartName, Duration),
    (report, way): (&mut Report, &mut Option<String>),
    hear: &mut dyn FnMut(&Check),
) -> Result<Part> {
    let mut part =
        Part { name: name.name().to_owned(), budget_s: limit.as_secs_f64(), took_s: 0.0, checks: Vec::new() };
    if !name.runs_on(plan.ground) {
        let detail = format!("not on the ground `{}`", plan.ground.name());
        let check = Check { name: PROCESS.to_owned(), outcome: Outcome::Skipped, detail, took_s: 0.0 };
        hear(&check);
        part.checks.push(check);
        return Ok(part);
    }
    let start = Instant::now();
    let mut command = part_command(plan, name.name())?;
    if let Some(way) = &*way {
        command.env(WAY, way);
    }
    let running = Running::start(&mut command)?;
    let mut begun = None;
    let ended = running.to_end(limit, |text| {
        match Line::parse(text) {
            Some(Line::Begin(name)) => begun = Some((name, Instant::now())),
            Some(Line::Check(check)) => {
                begun = None;
                hear(&check);
                part.checks.push(check);
            }
            Some(Line::Device(facts)) => report.device = Some(facts),
            Some(Line::Figure(figure)) => report.figures.push(figure),
            Some(Line::Way(name)) => *way = Some(name),
            Some(Line::Refused(_)) | None => {}
        }
        Ok(())
    })?;
    part.took_s = start.elapsed().as_secs_f64();
    if let Some(check) = last_words(&ended, begun, part.checks.is_empty()) {
        hear(&check);
        part.checks.push(check);
    }
    Ok(part)
}

/// A process of this program that makes one part.
///
/// # Errors
/// This program's file is not known.
pub fn part_command(plan: Plan<'_>, part: &str) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe().context("cannot find this program's own file")?);
    command.args(["--part", part, "--on", plan.ground.name(), "--device", &plan.device.to_string()]);
    Ok(command)
}

/// What a process that ended badly, or said nothing, has left to be told.
fn last_words(ended: &Ended, begun: Option<(String, Instant)>, said_nothing: bool) -> Option<Check> {
    if ended.is_well() && begun.is_none() && !said_nothing {
        return None;
    }
    let detail = if ended.is_well() { "it ended without a word".to_owned() } else { ended.why() };
    let (name, took) = begun.map_or((PROCESS.to_owned(), Duration::ZERO), |(name, since)| (name, since.elapsed()));
    Some(Check { name, outcome: Outcome::Failed, detail, took_s: took.as_secs_f64() })
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use super::*;
    use crate::child::End;

    fn ended(code: i32) -> Ended {
        Ended { end: End::Ended(ExitStatus::from_raw(code << 8)), stderr: vec!["error: no".to_owned()] }
    }

    #[test]
    fn a_check_under_way_when_its_process_dies_has_failed() {
        let check = last_words(&ended(1), Some(("matmul".to_owned(), Instant::now())), false).unwrap();
        assert_eq!((check.name.as_str(), check.outcome), ("matmul", Outcome::Failed));
        assert!(check.detail.ends_with("error: no"));
    }

    #[test]
    fn a_process_that_says_nothing_has_failed_also_when_it_ends_well() {
        assert_eq!(last_words(&ended(0), None, false), None);
        assert_eq!(last_words(&ended(0), None, true).map(|check| check.outcome), Some(Outcome::Failed));
        assert_eq!(last_words(&ended(1), None, false).map(|check| check.name).as_deref(), Some(PROCESS));
    }
}
