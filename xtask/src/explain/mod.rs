//! `cargo xtask explain`: which rank and which action a failure came from, by the flight records that the ranks wrote.

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::Context;
use clap::ValueEnum;
use pp_comm::flight::{Explanation, Records, explain};

/// Say what went wrong in a run that failed
///
/// Reads the flight records (rank-N.json) that the ranks of a failed run have written to a directory, and names the rank and
/// the action that the failure came from: a rank that was killed, froze, failed or is slow; a message that was lost, never
/// sent, sent twice, or is of another shape or type than agreed; ranks that wait for each other in a circle. Then it says
/// what each rank was at.
///
/// Exit codes: 0 explained, 1 the records do not tell, 2 bad arguments or no records of one run.
#[derive(clap::Args, Debug)]
pub(crate) struct ExplainArgs {
    /// The directory that the failed run named
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// How to say it
    #[arg(long, value_enum, value_name = "FORM", default_value_t = Form::Text)]
    format: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    /// In words
    Text,
    /// As one JSON object
    Json,
}

const EXPLAINED: u8 = 0;
const CANNOT_TELL: u8 = 1;
const REFUSED: u8 = 2;

pub(crate) fn run(args: &ExplainArgs) -> anyhow::Result<u8> {
    let records = match Records::read(&args.folder) {
        Ok(records) => records,
        Err(error) => {
            crate::say(&format!("error: {error}"));
            return Ok(REFUSED);
        }
    };
    let explanation = explain(&records);
    writeln!(io::stdout(), "{}", laid_out(&explanation, args.format)?).context("cannot write the output")?;
    Ok(if explanation.is_known() { EXPLAINED } else { CANNOT_TELL })
}

fn laid_out(explanation: &Explanation, form: Form) -> anyhow::Result<String> {
    Ok(match form {
        Form::Text => explanation.to_string(),
        Form::Json => serde_json::to_string_pretty(explanation)?,
    })
}
