//! The `pp-schedule` command.

use std::process::ExitCode;

use clap::Parser;
use pp_schedule::cli::{Cli, run_to_stdout};

fn main() -> ExitCode {
    ExitCode::from(run_to_stdout(&Cli::parse().command))
}
