//! Any format to any other.
//!
//! Each format reads into a [`Document`] and is written from it. From any format to any other and back gives the same
//! document, and the text that this crate writes comes back character for character; only CSV has no place for a name.
//!
//! ```
//! use pp_schedule::format::any::{Format, read, write};
//! let document = read("0F0,0B0\r\n", None).unwrap();
//! let json = write(&document, Format::Json);
//! assert_eq!(Format::of_text(&json), Format::Json);
//! assert_eq!(write(&read(&json, None).unwrap(), Format::Csv), "0F0,0B0\r\n");
//! ```

use std::fmt;
use std::str::FromStr;

use super::csv::{CsvError, Grid};
use super::document::Document;
use super::events::{self, EventsError};
use super::json::{self, JsonError};

/// A format that schedules are read from and written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// torch's rows of tokens, [`super::csv`].
    Csv,
    /// One JSON document, [`super::json`].
    Json,
    /// JSON lines, one per step, [`super::events`].
    Events,
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 3] = [Self::Csv, Self::Json, Self::Events];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Json => "json",
            Self::Events => "events",
        }
    }

    /// The format that a text is in: JSON starts with a brace, which no CSV does, and events say so in their first line.
    pub fn of_text(text: &str) -> Self {
        if !text.trim_start().starts_with('{') {
            return Self::Csv;
        }
        if events::is_header(text.lines().next().unwrap_or_default()) { Self::Events } else { Self::Json }
    }

    /// The format that the end of a file's name says: `.csv`, `.json`, `.jsonl` or `.ndjson`.
    pub fn of_file_name(name: &str) -> Option<Self> {
        let (_, extension) = name.rsplit_once('.')?;
        let extensions = [("csv", Self::Csv), ("json", Self::Json), ("jsonl", Self::Events), ("ndjson", Self::Events)];
        let found = extensions.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(extension));
        found.map(|(_, format)| format)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that is no format's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown format `{name}`; known: {}", Format::ALL.map(Format::name).join(", "))]
pub struct UnknownFormat {
    name: String,
}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|format| format.name().eq_ignore_ascii_case(name));
        found.ok_or_else(|| UnknownFormat { name: name.to_owned() })
    }
}

/// Reads a text in the format given, or in the one that it is in.
///
/// # Errors
/// A [`ReadError`] that names the place, what stands there and what was expected.
pub fn read(text: &str, format: Option<Format>) -> Result<Document, ReadError> {
    Ok(match format.unwrap_or_else(|| Format::of_text(text)) {
        Format::Csv => Grid::parse(text)?.into(),
        Format::Json => json::read(text)?,
        Format::Events => events::read(text)?,
    })
}

/// The text of a document. CSV leaves its name out.
pub fn write(document: &Document, format: Format) -> String {
    match format {
        Format::Csv => document.grid.to_csv(),
        Format::Json => json::write(document),
        Format::Events => events::write(document),
    }
}

/// Why a text is no schedule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// As CSV.
    #[error("as CSV: {0}")]
    Csv(#[from] CsvError),
    /// As JSON.
    #[error("as JSON: {0}")]
    Json(#[from] JsonError),
    /// As events.
    #[error("as events: {0}")]
    Events(#[from] EventsError),
}
