//! `plan`: which schedule to run, and why not the others.

mod args;
mod error;
mod flags;
mod json;
mod model;
mod name;
mod text;
mod winner;

use std::io::Write;

use clap::Args;

use args::Asked;

use super::costs::Priced;
use super::output::{DEPENDENCIES_ONLY, Form, OutputArgs, Subject, Texts};
use super::source::Source;
use super::{CommandError, figures};
use crate::format::text::Style;
use crate::plan::{Choice, Simulation, plan};
use crate::simulate::Scale;

pub(super) use error::PlanArgsError;

/// Arguments of `plan`.
#[derive(Clone, Debug, Args)]
#[command(allow_negative_numbers = true)]
pub struct PlanArgs {
    #[command(flatten)]
    ask: args::AskArgs,
    /// Families of candidates (alike but for their group size) to rank
    #[arg(long, value_name = "N", default_value_t = 10, help_heading = "Output")]
    top: usize,
    #[command(flatten)]
    output: OutputArgs,
}

pub(super) fn run(args: &PlanArgs, out: &mut dyn Write) -> Result<(), CommandError> {
    let asked = args.ask.request(args.top)?;
    let found = plan(&asked.request)?;
    let output = &args.output;
    match (output.format, found.fits.first()) {
        (Form::Text, _) => {
            let style =
                Style { width: output.width(), colour: output.may_colour(), scale: Some(&Scale::nanoseconds()) };
            output.put(&text::plan(&asked, &found, args.top, style)?, out)?;
        }
        (Form::Json, _) => output.put(&format!("{:#}\n", json::plan(&asked, &found, args.top)), out)?,
        (_, Some(winner)) => draw(&asked, winner, output, out)?,
        (_, None) => {}
    }
    match found.fits.first() {
        Some(_) => Ok(()),
        None => Err(CommandError::NothingFits(text::least_memory(&asked.request, &found))),
    }
}

/// The winner in any other form, as `simulate` has it.
fn draw(asked: &Asked, winner: &Choice, output: &OutputArgs, out: &mut dyn Write) -> Result<(), CommandError> {
    let stages = &winner.candidate.stages;
    let Simulation { order, costs, timeline, report } = winner.candidate.simulate()?;
    let priced = Priced {
        costs,
        scale: Scale::nanoseconds(),
        bytes: stages.loads.iter().map(|load| load.bytes).collect(),
        assumed: asked.assumed.clone(),
    };
    let source = Source::Generated(winner.candidate.config, order);
    let clock = DEPENDENCIES_ONLY.to_owned();
    let subject = Subject { source: &source, priced: &priced, timeline: &timeline, report: &report, clock };
    let texts = Texts { text: &figures::simulated, json: &figures::as_json, csv: &figures::as_csv };
    output.write(&subject, &texts, out)
}
