//! Tokens, as every format spells them: `2F0`, `2SEND_F0`, `2UNSHARD`, `(0F3;3B1)OVERLAP_F_B`.

use std::fmt;
use std::str::FromStr;

use super::{MarkKind, Token, TransferKind};
use crate::ids::{Microbatch, Stage};
use crate::work::{Work, WorkKind};

/// The most characters of a text that a message quotes.
const QUOTED: usize = 60;

const OVERLAP: &str = "OVERLAP_F_B";

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Work(work) => work.fmt(f),
            Self::Transfer { kind, stage, microbatch } => write!(f, "{stage}{}{microbatch}", kind.name()),
            Self::Mark { kind, stage } => write!(f, "{stage}{}", kind.name()),
            Self::Overlap { forward, backward } => {
                write!(f, "({}F{};{}B{})OVERLAP_F_B", forward.0, forward.1, backward.0, backward.1)
            }
        }
    }
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

/// A text as a message quotes it.
pub(in crate::format) fn quote(text: &str) -> String {
    shorten(text, |c| c.escape_debug().to_string())
}

/// The beginning of a text, as a message shows it.
pub(in crate::format) fn shorten(text: &str, show: impl Fn(char) -> String) -> String {
    let mut shown: String = text.chars().take(QUOTED).map(show).collect();
    if text.chars().nth(QUOTED).is_some() {
        shown.push_str("..");
    }
    shown
}
