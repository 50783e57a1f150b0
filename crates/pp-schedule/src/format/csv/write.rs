//! Grids to text.

use std::fmt::Write as _;

use super::{Grid, Token};

impl Grid {
    /// The text, with the line ends of Python's `csv.writer` (`\r\n`), which torch uses.
    pub fn to_csv(&self) -> String {
        let mut text = String::new();
        for row in &self.rows {
            push_row(&mut text, row);
            text.push_str("\r\n");
        }
        text
    }
}

/// The text of one row, without a line end.
///
/// A row of one idle step is `""`, as Python's `csv.writer` has it: an empty line is a row of no steps.
pub fn write_row(row: &[Option<Token>]) -> String {
    let mut text = String::new();
    push_row(&mut text, row);
    text
}

fn push_row(text: &mut String, row: &[Option<Token>]) {
    if let [None] = row {
        text.push_str("\"\"");
        return;
    }
    for (column, cell) in row.iter().enumerate() {
        if column > 0 {
            text.push(',');
        }
        if let Some(token) = cell {
            // Writing to a string cannot fail.
            let _ = write!(text, "{token}");
        }
    }
}
