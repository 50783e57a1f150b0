//! The workspace's commands; `cargo xtask help` lists them. One file or folder per command.

mod ci;
mod cuda_build;
mod explain;
mod gpu_check;
mod launch;
mod schedule;
mod workspace;

use std::io::Write;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use xtask::golden;

#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", about = "The workspace's commands")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Launch(launch::LaunchArgs),
    Explain(explain::ExplainArgs),
    Schedule(schedule::ScheduleArgs),
    Golden(golden::GoldenArgs),
    CudaBuild(cuda_build::CudaBuildArgs),
    GpuCheck(gpu_check::GpuCheckArgs),
    Ci(ci::CiArgs),
}

fn main() -> ExitCode {
    let typed: Vec<_> = std::env::args_os().collect();
    let cli = match Cli::try_parse_from(launch::own_flags_first(typed, &Cli::command())) {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() => {
            say(&one_line(&error.to_string()));
            return ExitCode::from(2);
        }
        // `--help`: asked for, so it is no failure.
        Err(help) => help.exit(),
    };
    let result = match &cli.command {
        Command::Launch(args) => Ok(launch::run(args)),
        Command::Explain(args) => explain::run(args),
        Command::Schedule(args) => schedule::run(args),
        Command::Golden(args) => golden::run(args),
        Command::CudaBuild(args) => cuda_build::run(args),
        Command::GpuCheck(args) => gpu_check::run(args),
        Command::Ci(args) => ci::run(args),
    };
    // A command that has said its last word returns the exit code; any other error is said here.
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            say(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// A last word that cannot be written is still followed by its exit code.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// clap's several paragraphs on a bad argument as one line, without the closing hint.
fn one_line(message: &str) -> String {
    let paragraphs = message.split("\n\n").map(|paragraph| {
        let words: Vec<&str> = paragraph.split_whitespace().collect();
        words.join(" ")
    });
    let kept: Vec<String> = paragraphs.filter(|p| !p.is_empty() && !p.starts_with("For more information")).collect();
    kept.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_bad_value_becomes_one_line_that_names_flag_and_value() {
        let error = Cli::try_parse_from(["cargo xtask", "launch", "--pp", "two"]).map(|_| ()).unwrap_err();
        let line = one_line(&error.to_string());
        assert!(!line.contains('\n'), "{line}");
        assert!(line.starts_with("error: ") && line.contains("--pp") && line.contains("'two'"), "{line}");
    }
}
