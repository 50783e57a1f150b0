//! Where output goes and in which form.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::costs::Priced;
use super::source::Source;
use super::{CommandError, title};
use crate::figures::{ClosedForm, closed_form};
use crate::format::chrome::{self, Trace};
use crate::format::picture::{Picture, numbers};
use crate::format::{html, svg};
use crate::simulate::{Report, Timeline};

/// Characters per line where nobody says how many there are.
const DEFAULT_WIDTH: usize = 100;
/// The most that are drawn.
const MAX_WIDTH: usize = 10_000;

/// The form of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Form {
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
    #[arg(long, value_enum, default_value_t = Form::Text, help_heading = "Output")]
    pub(super) format: Form,
    /// Write to a file, whole or not at all, instead of standard output (`-`)
    #[arg(long, short, value_name = "FILE", help_heading = "Output")]
    pub(super) output: Option<PathBuf>,
    /// Characters per line [default: the terminal's, or 100; at most 10000]
    #[arg(long, value_name = "N", help_heading = "Output")]
    pub(super) width: Option<usize>,
}

/// The clock of a timeline of [`Timeline::of_order`].
pub(super) const DEPENDENCIES_ONLY: &str = "dependencies only: any number of messages under way, side by side";

/// What is put out: a schedule, what it costs, and when it runs.
pub(super) struct Subject<'a> {
    pub(super) source: &'a Source,
    pub(super) priced: &'a Priced,
    pub(super) timeline: &'a Timeline,
    pub(super) report: &'a Report,
    /// By which clock it was played out: what was assumed of messages.
    pub(super) clock: String,
}

impl Subject<'_> {
    pub(super) fn title(&self) -> String {
        title::of(self.source)
    }

    /// The bubble in closed form, where there is one for this schedule and these costs.
    pub(super) fn closed_form(&self) -> Option<ClosedForm> {
        let costs = self.priced.costs.uniform_stage(self.source.order().extent().placement)?;
        closed_form(self.source.config()?, costs)
    }

    /// The same for people: formula and value.
    pub(super) fn closed_form_text(&self) -> Option<String> {
        self.closed_form().map(|ClosedForm { bubble, formula }| format!("{formula} = {}", numbers::percent(bubble)))
    }

    fn picture(&self) -> Picture<'_> {
        let Self { priced, timeline, report, .. } = self;
        let picture = Picture::new(self.title(), timeline, report, &priced.scale)
            .with_pairs(self.source.order())
            .with_closed_form(self.closed_form_text().into_iter().collect())
            .with_notes(priced.assumed.clone());
        if priced.bytes.is_empty() { picture } else { picture.with_bytes(|stage| priced.bytes_of(stage)) }
    }

    fn trace(&self) -> Trace<'_> {
        Trace::of(self.title(), self.timeline, &self.priced.scale)
    }
}

/// How a command says what pictures do not.
pub(super) struct Texts<'a> {
    pub(super) text: &'a dyn Fn(&Subject<'_>) -> String,
    pub(super) json: &'a dyn Fn(&Subject<'_>) -> String,
    pub(super) csv: &'a dyn Fn(&Subject<'_>) -> String,
}

impl OutputArgs {
    /// Characters per line.
    pub(super) fn width(&self) -> usize {
        let terminal = || terminal_size::terminal_size().map(|(width, _)| width.0.into());
        let told = || std::env::var("COLUMNS").ok()?.parse().ok();
        let to_terminal = self.output.is_none() && std::io::stdout().is_terminal();
        let measured = to_terminal.then(terminal).flatten();
        self.width.or_else(told).or(measured).unwrap_or(DEFAULT_WIDTH).min(MAX_WIDTH)
    }

    /// Whether text may be coloured: on a terminal, unless `NO_COLOR` says otherwise.
    pub(super) fn may_colour(&self) -> bool {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        self.output.is_none() && std::io::stdout().is_terminal() && !plain
    }

    /// Puts a subject out; `texts` makes its text for people, its JSON and its CSV.
    pub(super) fn write(
        &self,
        subject: &Subject<'_>,
        texts: &Texts<'_>,
        out: &mut dyn Write,
    ) -> Result<(), CommandError> {
        let text = match self.format {
            Form::Text => (texts.text)(subject),
            Form::Json => (texts.json)(subject),
            Form::Csv => (texts.csv)(subject),
            Form::Svg => svg::draw(&subject.picture()),
            Form::Chrome => chrome::to_string(&subject.trace())?,
            Form::Html => html::page(&subject.picture()),
        };
        self.put(&text, out)
    }

    /// Puts a text out.
    pub(super) fn put(&self, text: &str, out: &mut dyn Write) -> Result<(), CommandError> {
        put(self.output.as_deref(), text, out)
    }
}

/// Puts a text out: to a file, or to `out` if there is none or it is `-`.
pub(super) fn put(file: Option<&Path>, text: &str, out: &mut dyn Write) -> Result<(), CommandError> {
    match file.filter(|path| *path != Path::new("-")) {
        None => Ok(out.write_all(text.as_bytes())?),
        Some(path) => write_file(path, text)
            .map_err(|error| CommandError::File { file: path.display().to_string(), why: error.to_string() }),
    }
}

/// Writes a file whole or not at all: beside it first, then in its place. What is no file, such as a pipe or `/dev/null`, stays
/// what it is, and a link keeps pointing where it does.
fn write_file(path: &Path, text: &str) -> std::io::Result<()> {
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if std::fs::metadata(&path).is_ok_and(|there| !there.is_file()) {
        return std::fs::write(&path, text);
    }
    let mut beside = path.file_name().ok_or_else(|| std::io::Error::other("it has no file name"))?.to_owned();
    beside.push(format!(".{}.part", std::process::id()));
    let beside = path.with_file_name(beside);
    let written = std::fs::write(&beside, text).and_then(|()| {
        // Whoever might read what was there may read what comes in its place.
        if let Ok(there) = std::fs::metadata(&path) {
            std::fs::set_permissions(&beside, there.permissions())?;
        }
        std::fs::rename(&beside, &path)
    });
    written.inspect_err(|_| {
        // What is left of it is of no use; that it cannot be removed changes nothing.
        let _ = std::fs::remove_file(&beside);
    })
}
