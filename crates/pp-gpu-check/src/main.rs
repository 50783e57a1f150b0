//! The program `pp-gpu-check`.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use pp_gpu_check::budget::PartName;
use pp_gpu_check::conduct::{Plan, conduct};
use pp_gpu_check::parts;
use pp_gpu_check::report::{Check, Ground, Outcome, Report};

/// Checks on a GPU what can only be checked there, in under 8 minutes.
///
/// Exit codes: 0 all passed, 1 something failed or there is no GPU, 2 bad arguments.
#[derive(Debug, Parser)]
#[command(name = "pp-gpu-check", version)]
struct Args {
    /// Write the results as JSON to a file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Which GPU, of those that the process may see
    #[arg(long, value_name = "N", default_value_t = 0)]
    device: u32,
    /// What to run on; only a GPU counts, the others rehearse
    #[arg(long, value_enum, value_name = "GROUND", default_value_t = Ground::Cuda)]
    on: Ground,
    /// Only these parts
    #[arg(long, value_enum, value_name = "PART")]
    only: Vec<PartName>,
    /// Print how many GPUs the process may see, and do nothing else
    #[arg(long)]
    count_devices: bool,
    /// Make one part in this process: what the program starts itself with
    #[arg(long, hide = true, value_name = "PART")]
    part: Option<String>,
    /// What such a part is given
    #[arg(last = true, hide = true)]
    rest: Vec<OsString>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            let _ = writeln!(io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether all is well.
fn run(args: &Args) -> Result<bool> {
    if args.count_devices {
        println!("{}", parts::count_devices()?);
        return Ok(true);
    }
    if let Some(part) = &args.part {
        parts::run(part, args.on, args.device, &args.rest)?;
        return Ok(true);
    }
    parts::ready(args.on, args.device)?;
    let parts = if args.only.is_empty() { PartName::ALL.to_vec() } else { args.only.clone() };
    // Now, not after eight minutes.
    let mut json = args
        .json
        .as_ref()
        .map(|file| fs::File::create(file).with_context(|| format!("cannot write {}", file.display())))
        .transpose()?;
    let plan = Plan { ground: args.on, device: args.device, parts: &parts };
    let report = conduct(plan, |part, check| say(&line(part, check)))?;
    if let Some(json) = &mut json {
        serde_json::to_writer_pretty(&mut *json, &report)
            .and_then(|()| writeln!(json).map_err(serde_json::Error::io))?;
    }
    summary(&report);
    Ok(report.n_failed == 0)
}

fn line(part: PartName, check: &Check) -> String {
    let outcome = match check.outcome {
        Outcome::Passed => "passed",
        Outcome::Failed => "FAILED",
        Outcome::Skipped => "skipped",
    };
    format!("{:<8} {outcome:<7} {:>6.2} s  {}: {}", part.name(), check.took_s, check.name, check.detail)
}

fn summary(report: &Report) {
    for figure in &report.figures {
        say(&format!("{:<8} {} {} {}", "figure", figure.name, figure.value, figure.unit));
    }
    let Report { n_passed, n_failed, n_skipped, took_s, .. } = report;
    say(&format!("{n_passed} passed, {n_failed} failed, {n_skipped} skipped in {took_s:.0} s"));
    if !report.counts {
        say("a rehearsal: it says nothing about a GPU");
    }
}

/// Nobody may be there to read it any more; the file must be written all the same.
fn say(text: &str) {
    let _ = writeln!(io::stdout(), "{text}");
}
