//! `cargo xtask schedule`: the `pp-schedule` command.

use anyhow::Result;
use clap::Args;
use pp_schedule::cli;

/// Draw, count and prove schedules (the `pp-schedule` command)
#[derive(Debug, Args)]
pub(crate) struct ScheduleArgs {
    #[command(subcommand)]
    command: cli::Command,
}

/// Runs a command and gives the exit code.
pub(crate) fn run(args: &ScheduleArgs) -> Result<u8> {
    Ok(cli::run_to_stdout(&args.command))
}
