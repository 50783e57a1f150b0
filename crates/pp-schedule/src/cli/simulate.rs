//! `simulate`: when everything runs, and what follows from it.

use std::io::Write;

use clap::Args;

use super::costs::{CostArgs, Priced};
use super::output::{DEPENDENCIES_ONLY, OutputArgs, Subject, Texts};
use super::source::{Source, SourceArgs};
use super::{CommandError, figures};
use crate::simulate::{Report, Sends, Timeline};

/// Arguments of `simulate`.
#[derive(Clone, Debug, Args)]
#[command(allow_negative_numbers = true)]
pub struct SimulateArgs {
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    costs: CostArgs,
    /// Play the program out with so many receives posted, and sends in flight, per channel [default: no limit]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000), help_heading = "Channels")]
    prefetch: Option<u32>,
    /// A message leaves only once its receiver has asked for it, as in NCCL
    #[arg(long, help_heading = "Channels")]
    rendezvous: bool,
    /// Messages of a channel go one after the other, instead of side by side
    #[arg(long, help_heading = "Channels")]
    queues: bool,
    #[command(flatten)]
    output: OutputArgs,
}

pub(super) fn run(args: &SimulateArgs, out: &mut dyn Write) -> Result<(), CommandError> {
    let source = args.source.load()?;
    let priced = args.costs.price(source.order().extent())?;
    let (timeline, clock) = play(args, &source, &priced)?;
    let report = Report::new(&timeline, |stage| priced.bytes_of(stage));
    let subject = Subject { source: &source, priced: &priced, timeline: &timeline, report: &report, clock };
    let texts = Texts { text: &figures::simulated, json: &figures::as_json, csv: &figures::as_csv };
    args.output.write(&subject, &texts, out)
}

/// The timeline, and by which clock.
fn play(args: &SimulateArgs, source: &Source, priced: &Priced) -> Result<(Timeline, String), CommandError> {
    let written = source.written().is_some();
    if written && args.prefetch.is_some() {
        let text = "--prefetch is for schedules without transfers; this file says where they stand, so leave it out";
        return Err(CommandError::Request(text.to_owned()));
    }
    if args.prefetch.is_none() && !args.rendezvous && !args.queues && !written {
        return Ok((source.timeline(&priced.costs)?, DEPENDENCIES_ONLY.to_owned()));
    }
    let sends = if args.rendezvous { Sends::Rendezvous } else { Sends::Eager };
    let unlimited = source.order().rows().iter().map(Vec::len).max().unwrap_or(1) as u32;
    let program = source.program(Some(args.prefetch.unwrap_or(unlimited.max(1))))?;
    let ahead = match (args.prefetch, written) {
        (_, true) => "transfers where the file has them".to_owned(),
        (Some(prefetch), _) => format!("{prefetch} messages ahead per channel"),
        (None, _) => "any number of messages ahead".to_owned(),
    };
    let leave = if args.rendezvous { "which leave when both sides have posted" } else { "which leave when posted" };
    Ok((
        Timeline::of_program(program.program(), &priced.costs, sends)?,
        format!("the program's actions: {ahead}, {leave}"),
    ))
}
