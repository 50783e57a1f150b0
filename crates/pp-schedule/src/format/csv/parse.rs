//! Text to grids and tokens.

use std::fmt;
use std::str::FromStr;

use super::{Grid, MAX_CELLS, MarkKind, Token, TransferKind};
use crate::ids::{Microbatch, Stage};
use crate::work::{Work, WorkKind};

/// The most characters of a cell that a message quotes.
const QUOTED: usize = 60;

const OVERLAP: &str = "OVERLAP_F_B";

impl Grid {
    /// Reads a text: a row per line, which ends in `\n` or `\r\n` (the last one may go without), cells separated by
    /// commas, plain or quoted as a whole.
    ///
    /// # Errors
    /// A [`CsvError`] that names the row, the column, the cell and what was expected.
    pub fn parse(text: &str) -> Result<Self, CsvError> {
        let mut rows = Vec::new();
        let mut n_cells = 0;
        for (rank, line) in lines(text).enumerate() {
            rows.push(parse_row(rank, line, &mut n_cells)?);
        }
        Ok(Self { rows })
    }
}

/// As `str::lines`, but only a line end, never a lone `\r`, is taken off the last line.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.split_inclusive('\n').map(|line| match line.strip_suffix('\n') {
        Some(line) => line.strip_suffix('\r').unwrap_or(line),
        None => line,
    })
}

fn parse_row(rank: usize, line: &str, n_cells: &mut usize) -> Result<Vec<Option<Token>>, CsvError> {
    let mut row = Vec::new();
    let mut rest = (!line.is_empty()).then_some(line);
    while let Some(text) = rest {
        let column = row.len();
        let error = |kind| CsvError { row: rank, column, kind };
        *n_cells += 1;
        if *n_cells > MAX_CELLS {
            return Err(error(CsvErrorKind::TooManyCells));
        }
        let (cell, after) = split_cell(text).map_err(error)?;
        rest = after;
        row.push(match cell {
            "" => None,
            cell => Some(cell.parse().map_err(|source| error(CsvErrorKind::Token(source)))?),
        });
    }
    Ok(row)
}

/// The first cell without its quotes, and what stands behind its comma.
fn split_cell(text: &str) -> Result<(&str, Option<&str>), CsvErrorKind> {
    let Some(quoted) = text.strip_prefix('"') else {
        return Ok(match text.split_once(',') {
            Some((cell, rest)) => (cell, Some(rest)),
            None => (text, None),
        });
    };
    let (cell, after) = quoted.split_once('"').ok_or_else(|| CsvErrorKind::Unclosed { cell: quote(text) })?;
    match after.strip_prefix(',') {
        Some(rest) => Ok((cell, Some(rest))),
        None if after.is_empty() => Ok((cell, None)),
        None => Err(CsvErrorKind::AfterQuote { cell: quote(text) }),
    }
}

fn quote(text: &str) -> String {
    let mut quoted: String = text.chars().take(QUOTED).flat_map(char::escape_debug).collect();
    if text.chars().nth(QUOTED).is_some() {
        quoted.push_str("..");
    }
    quoted
}

impl FromStr for Token {
    type Err = TokenError;

    fn from_str(cell: &str) -> Result<Self, Self::Err> {
        let mut cursor = Cursor { cell, at: 0 };
        let token = cursor.token().map_err(|expected| cursor.error(expected))?;
        if cursor.at < cell.len() { Err(cursor.error(Expected::End)) } else { Ok(token) }
    }
}

/// A place in a cell.
struct Cursor<'a> {
    cell: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    fn rest(&self) -> &'a str {
        &self.cell[self.at..]
    }

    fn token(&mut self) -> Result<Token, Expected> {
        if !self.rest().starts_with('(') {
            return self.action();
        }
        self.at += 1;
        let forward = self.part('F', Expected::OverlappedForward)?;
        self.take(";", Expected::Separator)?;
        let backward = self.part('B', Expected::OverlappedBackward)?;
        self.take(")", Expected::Close)?;
        self.take(OVERLAP, Expected::Overlap)?;
        Ok(Token::Overlap { forward, backward })
    }

    fn action(&mut self) -> Result<Token, Expected> {
        let stage = Stage(self.number(Expected::Stage)?);
        let rest = self.rest();
        let name = &rest[..rest.find(|c: char| !c.is_ascii_uppercase() && c != '_').unwrap_or(rest.len())];
        if let Some(kind) = MarkKind::ALL.into_iter().find(|kind| kind.name() == name) {
            self.at += name.len();
            return Ok(Token::Mark { kind, stage });
        }
        let transfer = TransferKind::ALL.into_iter().find(|kind| kind.name() == name);
        let work = WorkKind::ALL.into_iter().find(|kind| name.chars().eq([kind.letter()]));
        if transfer.is_none() && work.is_none() {
            return Err(Expected::Kind);
        }
        self.at += name.len();
        let microbatch = Microbatch(self.number(Expected::Microbatch)?);
        match (transfer, work) {
            (Some(kind), _) => Ok(Token::Transfer { kind, stage, microbatch }),
            (None, Some(kind)) => Ok(Token::Work(Work { kind, stage, microbatch })),
            (None, None) => Err(Expected::Kind),
        }
    }

    /// One half of an overlapped pair.
    fn part(&mut self, letter: char, expected: Expected) -> Result<(Stage, Microbatch), Expected> {
        let stage = self.number(expected)?;
        if !self.rest().starts_with(letter) {
            return Err(expected);
        }
        self.at += letter.len_utf8();
        Ok((Stage(stage), Microbatch(self.number(Expected::Microbatch)?)))
    }

    fn take(&mut self, text: &str, expected: Expected) -> Result<(), Expected> {
        if !self.rest().starts_with(text) {
            return Err(expected);
        }
        self.at += text.len();
        Ok(())
    }

    /// Digits as they are written back: no leading zeros, and not more than 32 bits hold.
    fn number(&mut self, expected: Expected) -> Result<u32, Expected> {
        let rest = self.rest();
        let digits = &rest[..rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())];
        if digits.is_empty() {
            return Err(expected);
        }
        let number = digits.parse().map_err(|_| Expected::Number)?;
        if digits.len() > 1 && digits.starts_with('0') {
            return Err(Expected::Number);
        }
        self.at += digits.len();
        Ok(number)
    }

    fn error(&self, expected: Expected) -> TokenError {
        // The word that stands in the way: a run of digits, or of letters, or a single sign.
        let rest = self.rest();
        let first = rest.chars().next();
        let same = |c: char| match first {
            Some(first) if first.is_ascii_digit() => c.is_ascii_digit(),
            Some(first) if first.is_ascii_alphabetic() => c.is_ascii_alphabetic() || c == '_',
            _ => false,
        };
        let len = rest.find(|c| !same(c)).unwrap_or(rest.len()).max(first.map_or(0, char::len_utf8));
        TokenError { cell: quote(self.cell), after: quote(&self.cell[..self.at]), expected, found: quote(&rest[..len]) }
    }
}

/// What a cell should have had at the place where it stopped making sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Expected {
    /// The number of a stage.
    Stage,
    /// What is done.
    Kind,
    /// The number of a microbatch.
    Microbatch,
    /// A number in its shortest form.
    Number,
    /// The end of the cell.
    End,
    /// The forward of an overlapped pair.
    OverlappedForward,
    /// What separates a pair.
    Separator,
    /// The backward of an overlapped pair.
    OverlappedBackward,
    /// What closes a pair.
    Close,
    /// What follows a pair.
    Overlap,
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stage => "a stage number, or `(` for an overlapped pair",
            Self::Kind => "one of F, B, I, W, SEND_F, RECV_F, SEND_B, RECV_B, UNSHARD, RESHARD, REDUCE_GRAD",
            Self::Microbatch => "a microbatch number",
            Self::Number => "a number below 4294967296 without leading zeros",
            Self::End => "the end of the cell",
            Self::OverlappedForward => "a forward such as `0F3`",
            Self::Separator => "`;`",
            Self::OverlappedBackward => "a full backward such as `3B1`",
            Self::Close => "`)`",
            Self::Overlap => "OVERLAP_F_B",
        })
    }
}

/// A cell that is none of torch's actions.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{cell}`: expected {expected}{}, but found {}",
    if after.is_empty() { String::new() } else { format!(" after `{after}`") },
    if found.is_empty() { "the end".to_owned() } else { format!("`{found}`") }
)]
pub struct TokenError {
    /// The cell, shortened if it is long.
    pub cell: String,
    /// The part of it that makes sense.
    pub after: String,
    /// What should have followed.
    pub expected: Expected,
    /// What follows instead; nothing at the end of the cell.
    pub found: String,
}

/// A text that is no schedule in torch's form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("rank {row}, step {column} (line {}, column {}): {kind}", row + 1, column + 1)]
pub struct CsvError {
    /// The row, from 0: the rank.
    pub row: usize,
    /// The column, from 0: the step.
    pub column: usize,
    /// What is wrong there.
    pub kind: CsvErrorKind,
}

/// What is wrong with a cell.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CsvErrorKind {
    /// It is no action.
    #[error(transparent)]
    Token(TokenError),
    /// It starts with a quote and does not end with one on its line.
    #[error("`{cell}`: expected a closing `\"` on this line, but found the end")]
    Unclosed {
        /// The cell, shortened if it is long.
        cell: String,
    },
    /// Something stands behind its closing quote.
    #[error("`{cell}`: expected `,` or the end of the line after the closing `\"`")]
    AfterQuote {
        /// The cell, shortened if it is long.
        cell: String,
    },
    /// There are more cells than fit.
    #[error("more than {MAX_CELLS} cells, the most a text may have; use fewer microbatches")]
    TooManyCells,
}
