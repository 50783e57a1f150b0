//! Where output goes and in which form.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::costs::Priced;
use super::source::Source;
use super::{CommandError, figures, title};
use crate::figures::{BUBBLE_FORMULA, ideal_bubble};
use crate::format::csv::Grid;
use crate::simulate::{Report, Timeline};

/// Characters per line where nobody says how many there are.
const DEFAULT_WIDTH: usize = 100;

/// The form of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// For people
    Text,
    /// For programs
    Json,
    /// A row per rank (show), or per computation (simulate)
    Csv,
    /// A picture
    Svg,
    /// A page with a picture that answers to the mouse
    Html,
    /// A trace for Perfetto or chrome://tracing
    Chrome,
}

/// The flags of every command that puts out a schedule.
#[derive(Clone, Debug, Args)]
pub(super) struct OutputArgs {
    /// The form of the output
    #[arg(long, value_enum, default_value_t = Format::Text, help_heading = "Output")]
    pub(super) format: Format,
    /// Write to a file, whole or not at all, instead of standard output
    #[arg(long, short, value_name = "FILE", help_heading = "Output")]
    pub(super) output: Option<PathBuf>,
    /// Characters per line [default: the terminal's, or 100]
    #[arg(long, value_name = "N", help_heading = "Output")]
    pub(super) width: Option<usize>,
}

/// What is put out: a schedule, what it costs, and when it runs.
pub(super) struct Subject<'a> {
    pub(super) source: &'a Source,
    pub(super) priced: &'a Priced,
    pub(super) timeline: &'a Timeline,
    pub(super) report: &'a Report,
    /// What was assumed of messages.
    pub(super) clock: String,
}

impl Subject<'_> {
    pub(super) fn title(&self) -> String {
        title::of(self.source)
    }

    /// The bubble in closed form, where there is one for these costs.
    pub(super) fn closed_form_bubble(&self) -> Option<f64> {
        let costs = self.priced.costs.uniform_stage(self.source.order().extent().placement)?;
        let _ = costs;
        ideal_bubble(self.source.config()?)
    }

    /// The same, for people.
    pub(super) fn closed_form(&self) -> String {
        match self.closed_form_bubble() {
            Some(bubble) => format!("; closed form {BUBBLE_FORMULA} = {:.2} %", 100.0 * bubble),
            None => String::new(),
        }
    }
}

impl OutputArgs {
    /// Characters per line.
    pub(super) fn width(&self) -> usize {
        let terminal = || terminal_size::terminal_size().map(|(width, _)| width.0.into());
        let told = || std::env::var("COLUMNS").ok()?.parse().ok();
        let to_terminal = self.output.is_none() && std::io::stdout().is_terminal();
        let measured = to_terminal.then(terminal).flatten();
        self.width.or_else(told).or(measured).unwrap_or(DEFAULT_WIDTH)
    }

    /// Whether text may be coloured: on a terminal, unless `NO_COLOR` says otherwise.
    pub(super) fn may_colour(&self) -> bool {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        self.output.is_none() && std::io::stdout().is_terminal() && !plain
    }

    /// Puts a subject out; `text` makes its text for people.
    pub(super) fn write(
        &self,
        subject: &Subject<'_>,
        text: impl Fn(&Subject<'_>) -> String,
        out: &mut dyn Write,
    ) -> Result<(), CommandError> {
        let text = match self.format {
            Format::Text => text(subject),
            Format::Json => format!("{:#}\n", figures::as_json(subject)),
            Format::Csv => figures::as_csv(subject),
            Format::Svg | Format::Html | Format::Chrome => Grid::from(subject.source.order()).to_csv(),
        };
        self.put(&text, out)
    }

    /// Puts a text out.
    pub(super) fn put(&self, text: &str, out: &mut dyn Write) -> Result<(), CommandError> {
        match &self.output {
            None => Ok(out.write_all(text.as_bytes())?),
            Some(path) => write_file(path, text),
        }
    }
}

/// Writes a file whole or not at all: beside it first, then in its place.
pub(super) fn write_file(path: &Path, text: &str) -> Result<(), CommandError> {
    let bad = |error: std::io::Error| CommandError::File { file: path.display().to_string(), why: error.to_string() };
    let name = path.file_name().ok_or_else(|| bad(std::io::Error::other("it has no file name")))?;
    let mut beside = name.to_owned();
    beside.push(format!(".{}.part", std::process::id()));
    let beside = path.with_file_name(beside);
    let done = std::fs::write(&beside, text).and_then(|()| std::fs::rename(&beside, path));
    done.map_err(|error| {
        // What is left of it is of no use; that it cannot be removed changes nothing.
        let _ = std::fs::remove_file(&beside);
        bad(error)
    })
}
