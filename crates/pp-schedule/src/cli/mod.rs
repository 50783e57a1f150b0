//! The command line: `pp-schedule`, also reached as `cargo xtask schedule`.

mod amount;
mod convert;
mod costs;
mod decimal;
mod figures;
mod output;
mod plan;
mod search;
mod shell;
mod show;
mod simulate;
mod source;
mod table;
mod ticks;
mod title;
mod verify;

use std::io::Write;

use clap::{Args, Parser, Subcommand};

use plan::PlanArgsError;

use crate::config::{ConfigError, GPipeBackward, ScheduleConfig, ScheduleKind, ScheduleSpec};
use crate::import::ImportError;
use crate::lower::PolicyError;

/// Pipeline-parallel schedules: drawn, counted and proved free of deadlock
///
/// Exit codes: 0 fine, 1 failed, 2 bad arguments or configuration.
#[derive(Debug, Parser)]
#[command(name = "pp-schedule", version)]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Draw a schedule and count it, at unit costs, after proving it
    Show(show::ShowArgs),
    /// Simulate a step: its length, its bubble, who waits, what decides, how much memory it takes
    ///
    /// Example: pp-schedule simulate --schedule 1f1b --pp 8 -m 24 -F 18.5ms -B 27.4ms --latency 600us
    Simulate(Box<simulate::SimulateArgs>),
    /// Prove a schedule in torch's text form, or say where it goes wrong
    ///
    /// Without communication cells, the transfers are added by the lanes policy, with as little prefetch as passes. With
    /// them, each is posted alone where its cell stands. Exits 0 if proved, 1 if refuted, 2 if it cannot be judged.
    ///
    /// Example: pp-schedule verify schedule.csv --queues one-per-rank
    Verify(verify::VerifyArgs),
    /// Rank schedules, chunks, group sizes and recomputation by predicted step time, within a memory limit
    ///
    /// Costs and bytes are estimated from a GPT's shape, or given. Exits 0 with a winner, 1 if nothing fits, 2 if nothing
    /// can be tried.
    ///
    /// Example: pp-schedule plan --pp 8 -m 64 --num-layers 32 --layer-cost 2.1ms,4.2ms --activation-bytes 500MB
    /// --weight-bytes 2GB --memory 40GB
    Plan(Box<plan::PlanArgs>),
    /// Search a zero-bubble order for given costs within a memory limit
    ///
    /// One chunk per rank, or two in a V; the same costs on every stage. Says how far from the shortest it can be. The order
    /// is verified, drawn and run like any other: --format csv writes it for --schedule-csv.
    Search(Box<search::SearchArgs>),
    /// Write a schedule in another format: torch's CSV, JSON or events
    ///
    /// Cells are kept as they are written: idle steps, marks, transfers and overlapped pairs too, and also of a schedule that
    /// `verify` would refute. CSV has no place for the schedule's name.
    Convert(convert::ConvertArgs),
    /// Write the completions of a shell
    Completions(shell::CompletionsArgs),
    /// Write the manual page
    Man(shell::ManArgs),
}

/// The flags that say which schedule is meant.
#[derive(Clone, Debug, Args)]
pub struct ScheduleArgs {
    /// The schedule, or none for the default.
    #[arg(long, value_name = "NAME", help = schedule_help())]
    pub schedule: Option<ScheduleKind>,
    /// Pipeline ranks
    #[arg(long, visible_alias = "pipeline-model-parallel-size", default_value_t = 1)]
    pub pp: u32,
    /// Model chunks per rank; those dealt in a V (zb-v, v-half, v-min, dualpipe-v) always have 2
    #[arg(long, visible_alias = "num-virtual-stages-per-pipeline-rank", default_value_t = 1)]
    pub vp: u32,
    /// Microbatches per step
    #[arg(long, short = 'm', default_value_t = 8)]
    pub microbatches: u32,
    /// Microbatches a chunk runs in a row (interleaved only) [default: --pp]
    #[arg(long, visible_alias = "microbatch-group-size-per-virtual-pipeline-stage")]
    pub group_size: Option<u32>,
    /// Run interleaved, interleaved-zb and dualpipe-v with any number of microbatches, at the price of bubbles
    #[arg(long)]
    pub allow_bubbles: bool,
    /// Order of GPipe's backwards: reverse or ascending (gpipe only) [default: reverse]
    #[arg(long, value_name = "ORDER")]
    pub gpipe_backward: Option<GPipeBackward>,
    /// Forwards only, as in validation
    #[arg(long)]
    pub forward_only: bool,
}

impl ScheduleArgs {
    /// What the flags ask for.
    pub const fn spec(&self) -> ScheduleSpec {
        ScheduleSpec {
            schedule: self.schedule,
            pp: self.pp,
            vp: self.vp,
            microbatches: self.microbatches,
            group_size: self.group_size,
            allow_bubbles: self.allow_bubbles,
            gpipe_backward: self.gpipe_backward,
            forward_only: self.forward_only,
        }
    }
}

/// Every name there is, and the one that is taken.
fn schedule_help() -> String {
    let names = ScheduleKind::ALL.map(ScheduleKind::name).join(", ");
    format!("{names} [default: interleaved if --vp > 1, else 1f1b; none for one rank]")
}

/// Why a command failed, and the exit code that says so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// What was asked for is no schedule (exit code 2).
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// What the policy does not take (exit code 2).
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The program failed its verification (exit code 1).
    #[error(transparent)]
    Verify(#[from] crate::verify::VerifyError),
    /// The order cannot run (exit code 1).
    #[error(transparent)]
    Stuck(#[from] crate::simulate::Stuck),
    /// A program that does not run to its end (exit code 1).
    #[error(transparent)]
    Unplayable(#[from] crate::simulate::Unplayable),
    /// A rank was named that is not there (exit code 2).
    #[error("--actions {rank}: there are ranks 0..{n_ranks}")]
    NoSuchRank {
        /// The rank named.
        rank: u32,
        /// Ranks there are.
        n_ranks: u32,
    },
    /// A file could not be read (exit code 2).
    #[error("{file}: {why}")]
    Input {
        /// The file named.
        file: String,
        /// What went wrong.
        why: String,
    },
    /// A file could not be written (exit code 1).
    #[error("cannot write {file}: {why}")]
    File {
        /// The file named.
        file: String,
        /// What went wrong.
        why: String,
    },
    /// A file holds no schedule (exit code 2).
    #[error("{file}: {source}")]
    Read {
        /// The file named.
        file: String,
        /// What is wrong with it.
        source: crate::format::any::ReadError,
    },
    /// What was asked for does not go together (exit code 2).
    #[error("{0}")]
    Request(String),
    /// A schedule cannot be judged (exit code 2).
    #[error(transparent)]
    Grid(#[from] crate::format::csv::GridError),
    /// Nothing can be searched (exit code 2).
    #[error(transparent)]
    Search(#[from] crate::synth::SynthError),
    /// An order that does not cover its step (exit code 1).
    #[error(transparent)]
    Order(#[from] crate::order::OrderError),
    /// Costs make no sense (exit code 2).
    #[error("{0}")]
    Costs(String),
    /// A schedule was found wrong (exit code 1).
    #[error("refuted: {0}")]
    Refuted(String),
    /// What to plan for is said in arguments that make no request (exit code 2).
    #[error(transparent)]
    PlanArgs(#[from] PlanArgsError),
    /// Nothing can be planned (exit code 2).
    #[error(transparent)]
    Plan(#[from] crate::plan::PlanError),
    /// Every candidate takes too much memory (exit code 1).
    #[error("{0}")]
    NothingFits(String),
    /// Output could not be written (exit code 1).
    #[error("cannot write the output: {0}")]
    Output(#[from] std::io::Error),
}

impl CommandError {
    /// The process's exit code: 2 for a bad request, 1 for a failure.
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Config(_)
            | Self::Policy(_)
            | Self::NoSuchRank { .. }
            | Self::Input { .. }
            | Self::Read { .. }
            | Self::Request(_)
            | Self::Grid(_)
            | Self::Costs(_)
            | Self::Search(_)
            | Self::PlanArgs(_)
            | Self::Plan(_) => 2,
            Self::Verify(_)
            | Self::Stuck(_)
            | Self::Unplayable(_)
            | Self::Refuted(_)
            | Self::Order(_)
            | Self::NothingFits(_)
            | Self::Output(_)
            | Self::File { .. } => 1,
        }
    }
}

impl From<ImportError> for CommandError {
    fn from(error: ImportError) -> Self {
        match error {
            ImportError::Refuted(text) => Self::Refuted(text),
            unjudged @ ImportError::Unjudged(_) => Self::Request(unjudged.to_string()),
        }
    }
}

/// Runs a command, writing to `out`.
///
/// # Errors
/// [`CommandError`], which knows its exit code.
pub fn run(command: &Command, out: &mut dyn Write) -> Result<(), CommandError> {
    match command {
        Command::Show(args) => show::run(args, out),
        Command::Simulate(args) => simulate::run(args, out),
        Command::Verify(args) => verify::run(args, out),
        Command::Search(args) => search::run(args, out),
        Command::Convert(args) => convert::run(args, out),
        Command::Completions(args) => shell::completions(args, out),
        Command::Man(args) => shell::man(args, out),
        Command::Plan(args) => plan::run(args, out),
    }
}

/// Runs a command on standard output and gives the exit code; a reader that has left (`| head`) is no failure.
pub fn run_to_stdout(command: &Command) -> u8 {
    let mut out = std::io::stdout().lock();
    match run(command, &mut out).and_then(|()| Ok(out.flush()?)) {
        Ok(()) => 0,
        Err(CommandError::Output(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => 0,
        Err(error) => {
            // Nobody may be left to read it; the exit code still says it.
            let _ = writeln!(std::io::stderr(), "error: {error}");
            error.exit_code()
        }
    }
}

impl ScheduleArgs {
    fn config(&self) -> Result<ScheduleConfig, ConfigError> {
        ScheduleConfig::new(&self.spec())
    }
}
