//! `convert`: a schedule in another format.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};

use super::CommandError;
use super::output::put;
use super::source::SourceArgs;
use crate::format::any::{self, Format};
use crate::format::grid::Grid;

/// Arguments of `convert`.
#[derive(Clone, Debug, Args)]
#[command(allow_negative_numbers = true)]
#[command(after_help = "\
Examples:
  pp-schedule convert --pp 4 --vp 2 --microbatches 8 --output schedule.csv
  pp-schedule convert schedule.csv --to json
  pp-schedule convert - --from csv --to events --compute-only
  pp-schedule convert --schedule gpipe --pp 2 --with-communication --to csv | pp-schedule verify - --queues one-per-pair")]
pub struct ConvertArgs {
    #[command(flatten)]
    source: SourceArgs,
    /// The format of FILE [default: told from what it holds]
    #[arg(long, value_enum, value_name = "FORMAT")]
    from: Option<Format>,
    /// The format to write [default: told from the end of --output]
    #[arg(long, value_enum, value_name = "FORMAT")]
    to: Option<Format>,
    /// Leave out idle steps, marks and transfers
    #[arg(long)]
    compute_only: bool,
    /// Place transfers and marks (UNSHARD, REDUCE_GRAD) as torch 2.13 does when it loads the computations, instead of those there
    /// are
    #[arg(long, conflicts_with = "compute_only")]
    with_communication: bool,
    /// Write to a file, whole or not at all; `-` for standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl ValueEnum for Format {
    fn value_variants<'a>() -> &'a [Self] {
        &Self::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let help = match self {
            Self::Csv => "A row per rank, a cell per step, as torch reads and writes them",
            Self::Json => "One document (docs/schedule.schema.json)",
            Self::Events => "JSON lines, one per step (docs/schedule-events.schema.json)",
        };
        Some(PossibleValue::new(self.name()).help(help))
    }
}

pub(super) fn run(args: &ConvertArgs, out: &mut dyn Write) -> Result<(), CommandError> {
    if args.from.is_some() && !args.source.is_file() {
        return Err(CommandError::Request("--from is for a file; name one, or `-` for standard input".to_owned()));
    }
    let file = args.output.as_deref().filter(|path| *path != Path::new("-"));
    let format = args.to.map_or_else(|| format_of(file), Ok)?;
    let mut document = args.source.document(args.from)?;
    if args.compute_only {
        document.grid = document.grid.compute_only();
    }
    if args.with_communication {
        let computations = document.grid.compute_only();
        let order = computations.to_order().map_err(|error| crate::import::no_order(&document.grid, error))?;
        document.grid = Grid::lowered_as_torch(&order).map_err(|error| CommandError::Refuted(error.to_string()))?;
    }
    put(file, &any::write(&document, format), out)
}

fn format_of(file: Option<&Path>) -> Result<Format, CommandError> {
    let name = file.map(|path| path.to_string_lossy()).unwrap_or_default();
    Format::of_file_name(&name).ok_or_else(|| {
        let formats = "csv, json or events";
        CommandError::Request(match file {
            None => format!("--to is missing: say {formats}"),
            Some(_) => format!("--output {name} says no format (.csv, .json, .jsonl or .ndjson); say --to {formats}"),
        })
    })
}
