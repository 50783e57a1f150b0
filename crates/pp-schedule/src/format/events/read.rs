//! Events to documents.

use serde_json::Value;

use super::{FORMAT, Kind};
use crate::format::document::{Document, FieldError, Fields, Head, HeadError};
use crate::format::grid::{Grid, MAX_CELLS, Token, quote};
use crate::ids::{Microbatch, Stage};
use crate::work::Work;

/// What a header may have.
const HEADER: &[&str] = &["format", "version", "name", "ranks", "stages", "microbatches", "placement", "steps"];

/// Reads a text: the header, then a line per step. The last line may go without its end.
///
/// # Errors
/// An [`EventsError`] that names the line, what stands there and what was expected.
pub fn read(text: &str) -> Result<Document, EventsError> {
    let mut lines = text.lines();
    let mut reader = Reader::new(lines.next().unwrap_or_default())?;
    for line in lines {
        reader.push(line)?;
    }
    reader.finish()
}

/// Reads a text that comes line by line.
///
/// ```
/// use pp_schedule::format::events::Reader;
/// let mut reader = Reader::new(r#"{"format":"pp-schedule-events","version":1,"ranks":1,"steps":[1]}"#).unwrap();
/// reader.push(r#"{"rank":0,"step":0,"kind":"F","stage":0,"microbatch":0}"#).unwrap();
/// assert_eq!(reader.finish().unwrap().grid.to_csv(), "0F0\r\n");
/// ```
#[derive(Clone, Debug)]
pub struct Reader {
    head: Head,
    /// Lines that each rank has.
    steps: Vec<u64>,
    rows: Vec<Vec<Option<Token>>>,
    /// The last line read, from 1.
    line: usize,
}

impl Reader {
    /// Begins with the header.
    ///
    /// # Errors
    /// An [`EventsError`] for line 1.
    pub fn new(header: &str) -> Result<Self, EventsError> {
        let (head, steps) = read_header(header).map_err(|kind| EventsError { line: 1, kind })?;
        let rows = vec![Vec::new(); steps.len()];
        Ok(Self { head, steps, rows, line: 1 })
    }

    /// Goes on with the next line, without its end.
    ///
    /// # Errors
    /// An [`EventsError`]; nothing can follow.
    pub fn push(&mut self, line: &str) -> Result<(), EventsError> {
        self.line += 1;
        self.take(line).map_err(|kind| EventsError { line: self.line, kind })
    }

    /// The document, after the last line.
    ///
    /// # Errors
    /// An [`EventsError`] if lines are missing, or do not have what the header says.
    pub fn finish(self) -> Result<Document, EventsError> {
        if let Some((rank, step)) = self.next() {
            return Err(EventsError { line: self.line + 1, kind: EventsErrorKind::CutShort { rank, step } });
        }
        let document = self.head.document(Grid { rows: self.rows });
        document.map_err(|error| EventsError { line: 1, kind: error.into() })
    }

    /// Rank and step of the next line.
    fn next(&self) -> Option<(usize, usize)> {
        let mut open = self.steps.iter().zip(&self.rows).enumerate();
        open.find_map(|(rank, (steps, row))| ((row.len() as u64) < *steps).then_some((rank, row.len())))
    }

    fn take(&mut self, line: &str) -> Result<(), EventsErrorKind> {
        let mut fields = object(line)?;
        let (rank, step) = self.next().ok_or(EventsErrorKind::TooManyLines)?;
        let found = (fields.number("rank")?, fields.number("step")?);
        if found != (rank as u64, step as u64) {
            return Err(EventsErrorKind::OutOfTurn { found, rank, step });
        }
        self.rows[rank].push(read_cell(fields)?);
        Ok(())
    }
}

fn object(line: &str) -> Result<Fields, EventsErrorKind> {
    serde_json::from_str(line).map_err(|error| EventsErrorKind::Malformed { why: error.to_string() })
}

fn read_header(line: &str) -> Result<(Head, Vec<u64>), EventsErrorKind> {
    let mut fields = object(line)?;
    let head = Head::read(&mut fields, FORMAT)?;
    let numbers = |value: &Value| value.as_array()?.iter().map(Value::as_u64).collect::<Option<Vec<u64>>>();
    let steps = fields.optional("steps", "a list with the number of lines of each rank", numbers)?;
    let steps = steps.ok_or(FieldError::Missing { name: "steps" })?;
    fields.finish(HEADER)?;
    if steps.len() as u64 != head.ranks {
        return Err(EventsErrorKind::Ranks { ranks: head.ranks, steps: steps.len() });
    }
    match steps.iter().try_fold(0_u64, |sum, steps| sum.checked_add(*steps)) {
        Some(sum) if sum <= MAX_CELLS as u64 => Ok((head, steps)),
        _ => Err(EventsErrorKind::TooManySteps),
    }
}

fn read_cell(mut fields: Fields) -> Result<Option<Token>, EventsErrorKind> {
    let name = fields.text("kind")?;
    let known = Kind::all().find(|kind| kind.name() == name);
    let kind = known.ok_or_else(|| EventsErrorKind::UnknownKind { kind: quote(&name) })?;
    let id = |fields: &mut Fields, name| fields.optional_id(name)?.ok_or(FieldError::Missing { name });
    // Which fields there may be depends on the kind; one too many is told from those.
    let (token, known): (_, &'static [&'static str]) = match kind {
        Kind::Idle => (None, &["rank", "step", "kind"]),
        Kind::Mark(kind) => {
            let stage = Stage(id(&mut fields, "stage")?);
            (Some(Token::Mark { kind, stage }), &["rank", "step", "kind", "stage"])
        }
        Kind::Work(_) | Kind::Transfer(_) | Kind::Overlap => {
            let stage = Stage(id(&mut fields, "stage")?);
            let microbatch = Microbatch(id(&mut fields, "microbatch")?);
            match kind {
                Kind::Work(kind) => (Some(Token::Work(Work { kind, stage, microbatch })), PLACED),
                Kind::Transfer(kind) => (Some(Token::Transfer { kind, stage, microbatch }), PLACED),
                _ => {
                    let backward_stage = Stage(id(&mut fields, "backward_stage")?);
                    let backward_microbatch = Microbatch(id(&mut fields, "backward_microbatch")?);
                    let (forward, backward) = ((stage, microbatch), (backward_stage, backward_microbatch));
                    (Some(Token::Overlap { forward, backward }), PAIRED)
                }
            }
        }
    };
    fields.finish(known)?;
    Ok(token)
}

/// What a computation or a transfer has.
const PLACED: &[&str] = &["rank", "step", "kind", "stage", "microbatch"];

/// What an overlapped pair has.
const PAIRED: &[&str] = &["rank", "step", "kind", "stage", "microbatch", "backward_stage", "backward_microbatch"];

/// A line that makes no sense where it stands.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {kind}")]
pub struct EventsError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub kind: EventsErrorKind,
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EventsErrorKind {
    /// It is no JSON object.
    #[error("expected one JSON object: {why}")]
    Malformed {
        /// What is wrong, and where in the line.
        why: String,
    },
    /// The header is wrong, or the lines after it are not what it says.
    #[error(transparent)]
    Head(#[from] HeadError),
    /// `steps` is not of the ranks.
    #[error("`ranks` is {ranks}, but `steps` has {steps} numbers; it has one for each rank")]
    Ranks {
        /// Ranks.
        ranks: u64,
        /// Numbers in `steps`.
        steps: usize,
    },
    /// There are more steps than fit.
    #[error("`steps` has more than {MAX_CELLS} together, the most a text may have; use fewer microbatches")]
    TooManySteps,
    /// It is not the next.
    #[error("`rank` {}, `step` {}: expected rank {rank}, step {step}; the lines go rank by rank and step by step", found.0, found.1)]
    OutOfTurn {
        /// Its rank and step.
        found: (u64, u64),
        /// The next rank.
        rank: usize,
        /// The next step.
        step: usize,
    },
    /// The header's steps were all there before.
    #[error("a line too many: the header's `steps` are all there")]
    TooManyLines,
    /// The text ends before all steps of the header were there.
    #[error("expected rank {rank}, step {step}, but the text ends here; it was cut short, or `steps` is wrong")]
    CutShort {
        /// The next rank.
        rank: usize,
        /// The next step.
        step: usize,
    },
    /// A kind that there is not.
    #[error("unknown `kind` \"{kind}\"; known: {}", Kind::all().map(Kind::name).collect::<Vec<_>>().join(", "))]
    UnknownKind {
        /// The kind.
        kind: String,
    },
}

impl From<FieldError> for EventsErrorKind {
    fn from(error: FieldError) -> Self {
        Self::Head(error.into())
    }
}

/// Whether a line says that it is the header of events, of whatever version.
pub(in crate::format) fn is_header(line: &str) -> bool {
    object(line).is_ok_and(|mut fields| fields.text("format").is_ok_and(|format| format == FORMAT))
}
