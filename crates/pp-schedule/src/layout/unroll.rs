//! Layout strings written out: repetitions become what they repeat, as Megatron does it.

use super::layer_type::LayerType;
use super::limits::MAX_PATTERN_LEN;
use super::pattern_error::PatternError;

/// The layers and bars of a text, with every repetition written out.
pub(super) fn unroll(text: &str) -> Result<Vec<Mark>, PatternError> {
    let marks = text.chars().enumerate().map(|(at, char)| Mark { char, at });
    let marks: Vec<Mark> = marks.filter(|mark| mark.char != ',').collect();
    match marks.iter().find(|mark| !mark.is_known()) {
        Some(odd) => Err(odd.unknown()),
        None => unroll_characters(&unroll_groups(&marks)?),
    }
}

/// A character and where it stood in the text.
#[derive(Clone, Copy)]
pub(super) struct Mark {
    pub(super) char: char,
    at: usize,
}

impl Mark {
    fn is_layer_or_bar(self) -> bool {
        self.char == '|' || LayerType::from_letter(self.char).is_some()
    }

    fn is_known(self) -> bool {
        self.is_layer_or_bar() || matches!(self.char, '(' | ')' | '*') || self.char.is_ascii_digit()
    }

    pub(super) fn unknown(self) -> PatternError {
        PatternError::UnknownCharacter { found: self.char, at: self.at }
    }
}

/// `(ab)*2` becomes `abab`. What is left has no parentheses.
fn unroll_groups(mut marks: &[Mark]) -> Result<Vec<Mark>, PatternError> {
    let mut out = Vec::new();
    while let Some((&mark, rest)) = marks.split_first() {
        marks = rest;
        match mark.char {
            '(' => {
                let len = rest.iter().position(|mark| matches!(mark.char, '(' | ')'));
                let Some(len) = len.filter(|len| rest[*len].char == ')') else {
                    return Err(PatternError::Unclosed { at: mark.at });
                };
                let group = &rest[..len];
                let Some((count, after)) = repetition(&rest[len + 1..]).filter(|_| len > 0) else {
                    return Err(PatternError::BareGroup { at: mark.at, empty: len == 0 });
                };
                repeat(&mut out, group, count)?;
                marks = after;
            }
            ')' => return Err(PatternError::Unopened { at: mark.at }),
            _ => repeat(&mut out, &[mark], 1)?,
        }
    }
    Ok(out)
}

/// `t*3` becomes `ttt`. What is left is layers and bars.
fn unroll_characters(mut marks: &[Mark]) -> Result<Vec<Mark>, PatternError> {
    let mut out = Vec::new();
    while let Some((&mark, rest)) = marks.split_first() {
        if mark.char == '*' {
            let counted = repetition(marks).is_some();
            return Err(PatternError::BareStar { at: mark.at, counted });
        }
        if !mark.is_layer_or_bar() {
            return Err(mark.unknown());
        }
        if rest.first().is_some_and(|next| next.char == '*') {
            let bare = PatternError::BareStar { at: rest[0].at, counted: false };
            let (count, after) = repetition(rest).ok_or(bare)?;
            repeat(&mut out, &[mark], count)?;
            marks = after;
        } else {
            repeat(&mut out, &[mark], 1)?;
            marks = rest;
        }
    }
    Ok(out)
}

/// The count of a `*12` at the start, and what follows it.
fn repetition(marks: &[Mark]) -> Option<(usize, &[Mark])> {
    let (_, digits) = marks.split_first().filter(|(star, _)| star.char == '*')?;
    let len = digits.iter().take_while(|mark| mark.char.is_ascii_digit()).count();
    let value =
        |sum: usize, mark: &Mark| sum.saturating_mul(10).saturating_add(mark.char.to_digit(10).unwrap_or(0) as usize);
    (len > 0).then(|| (digits[..len].iter().fold(0, value), &digits[len..]))
}

fn repeat(out: &mut Vec<Mark>, group: &[Mark], count: usize) -> Result<(), PatternError> {
    let len = out.len().saturating_add(group.len().saturating_mul(count));
    if len > MAX_PATTERN_LEN {
        return Err(PatternError::TooLong { len });
    }
    (0..count).for_each(|_| out.extend_from_slice(group));
    Ok(())
}
