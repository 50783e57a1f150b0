//! Documents to JSON.

use std::fmt::Write as _;

use super::FORMAT;
use crate::format::document::{Document, Head};

/// The text: a field per line and a line per rank, so that two schedules can be compared line by line.
pub fn write(document: &Document) -> String {
    let mut text = "{\n".to_owned();
    for (name, value) in Head::of(document).fields(FORMAT) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  \"{name}\": {value},");
    }
    text.push_str("  \"actions\": [");
    for (rank, row) in document.grid.rows.iter().enumerate() {
        text.push_str(if rank == 0 { "\n    [" } else { ",\n    [" });
        for (step, cell) in row.iter().enumerate() {
            if step > 0 {
                text.push_str(", ");
            }
            // A token has nothing that JSON would escape.
            let _ = match cell {
                Some(token) => write!(text, "\"{token}\""),
                None => write!(text, "null"),
            };
        }
        text.push(']');
    }
    text.push_str(if document.grid.rows.is_empty() { "]\n}\n" } else { "\n  ]\n}\n" });
    text
}
