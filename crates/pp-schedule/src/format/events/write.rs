//! Documents to events.

use std::fmt::Write as _;
use std::iter::once;

use super::{FORMAT, Kind};
use crate::format::document::{Document, Head};
use crate::format::grid::Token;

/// The text, each line of it ended.
pub fn write(document: &Document) -> String {
    let mut text = String::new();
    for line in lines(document) {
        text.push_str(&line);
        text.push('\n');
    }
    text
}

/// The header, then a line per step, without line ends.
pub fn lines(document: &Document) -> impl Iterator<Item = String> {
    let rows = document.grid.rows.iter().enumerate();
    let steps = rows.flat_map(|(rank, row)| row.iter().enumerate().map(move |(step, cell)| line(rank, step, *cell)));
    once(header(document)).chain(steps)
}

fn header(document: &Document) -> String {
    let steps: Vec<String> = document.grid.rows.iter().map(|row| row.len().to_string()).collect();
    let mut line = "{".to_owned();
    for (name, value) in Head::of(document).fields(FORMAT) {
        // Writing to a string cannot fail.
        let _ = write!(line, "\"{name}\":{value},");
    }
    let _ = write!(line, "\"steps\":[{}]}}", steps.join(","));
    line
}

fn line(rank: usize, step: usize, cell: Option<Token>) -> String {
    let mut line = format!(r#"{{"rank":{rank},"step":{step}"#);
    let mut put = |kind: Kind, ids: &[(&str, u32)]| {
        // Writing to a string cannot fail.
        let _ = write!(line, r#","kind":"{}""#, kind.name());
        for (name, id) in ids {
            let _ = write!(line, r#","{name}":{id}"#);
        }
    };
    match cell {
        None => put(Kind::Idle, &[]),
        Some(Token::Work(work)) => {
            put(Kind::Work(work.kind), &[("stage", work.stage.0), ("microbatch", work.microbatch.0)]);
        }
        Some(Token::Transfer { kind, stage, microbatch }) => {
            put(Kind::Transfer(kind), &[("stage", stage.0), ("microbatch", microbatch.0)]);
        }
        Some(Token::Mark { kind, stage }) => put(Kind::Mark(kind), &[("stage", stage.0)]),
        Some(Token::Overlap { forward, backward }) => put(
            Kind::Overlap,
            &[
                ("stage", forward.0.0),
                ("microbatch", forward.1.0),
                ("backward_stage", backward.0.0),
                ("backward_microbatch", backward.1.0),
            ],
        ),
    }
    line.push('}');
    line
}
