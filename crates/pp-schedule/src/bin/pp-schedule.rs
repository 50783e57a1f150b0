//! The `pp-schedule` command.

use std::process::ExitCode;

use clap::Parser;
use pp_schedule::cli::{Command, run_to_stdout};

/// Pipeline-parallel schedules: drawn, counted and proved free of deadlock
///
/// Exit codes: 0 fine, 1 failed, 2 bad arguments or configuration.
#[derive(Debug, Parser)]
#[command(name = "pp-schedule", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    ExitCode::from(run_to_stdout(&Cli::parse().command))
}
