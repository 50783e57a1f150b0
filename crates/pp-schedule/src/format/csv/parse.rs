//! Text to grids.

use super::{Grid, MAX_CELLS, Token, TokenError};
use crate::format::grid::quote;

impl Grid {
    /// Reads a text: a row per line, which ends in `\n` or `\r\n` (the last one may go without), cells separated by
    /// commas, plain or quoted as a whole.
    ///
    /// # Errors
    /// A [`CsvError`] that names the row, the column, the cell and what was expected.
    pub fn parse(text: &str) -> Result<Self, CsvError> {
        // Spreadsheets put the mark of byte order in front.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
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
        row.push(match cell.trim_matches([' ', '\t']) {
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
