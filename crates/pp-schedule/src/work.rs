//! One computation of one stage on one microbatch, and its token (`2F0`).

use std::fmt;
use std::str::FromStr;

use crate::ids::{Microbatch, Stage};

/// What is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum WorkKind {
    /// Forward (`F`).
    Forward,
    /// Full backward (`B`): the gradient of the input and of the weights.
    Backward,
    /// Backward for the input only (`I`); its weight gradient comes later.
    BackwardInput,
    /// Backward for the weights only (`W`), after the `I` of the same stage and microbatch.
    BackwardWeight,
}

impl WorkKind {
    /// All kinds, in the order of their discriminants.
    pub const ALL: [Self; 4] = [Self::Forward, Self::Backward, Self::BackwardInput, Self::BackwardWeight];

    /// The letter in a token.
    pub const fn letter(self) -> char {
        match self {
            Self::Forward => 'F',
            Self::Backward => 'B',
            Self::BackwardInput => 'I',
            Self::BackwardWeight => 'W',
        }
    }

    /// The name in pictures.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Backward => "full backward",
            Self::BackwardInput => "input gradient",
            Self::BackwardWeight => "weight gradient",
        }
    }
}

/// One computation: a kind, a global stage and a microbatch.
///
/// Its text is torch's compute token: stage, letter, microbatch.
///
/// ```
/// use pp_schedule::Work;
/// let work: Work = "2F0".parse().unwrap();
/// assert_eq!(work.stage.0, 2);
/// assert_eq!(work.to_string(), "2F0");
/// assert!("2F0junk".parse::<Work>().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Work {
    /// What is computed.
    pub kind: WorkKind,
    /// Which global stage computes it.
    pub stage: Stage,
    /// On which microbatch.
    pub microbatch: Microbatch,
}

impl Work {
    /// A forward.
    pub const fn forward(stage: Stage, microbatch: Microbatch) -> Self {
        Self { kind: WorkKind::Forward, stage, microbatch }
    }

    /// A full backward.
    pub const fn backward(stage: Stage, microbatch: Microbatch) -> Self {
        Self { kind: WorkKind::Backward, stage, microbatch }
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{}", self.stage, self.kind.letter(), self.microbatch)
    }
}

/// A token that is not a computation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{token}` is not a computation: expected a stage, one of F, B, I, W, and a microbatch, such as `2F0`")]
pub struct ParseWorkError {
    token: String,
}

impl FromStr for Work {
    type Err = ParseWorkError;

    fn from_str(token: &str) -> Result<Self, Self::Err> {
        let error = || ParseWorkError { token: token.chars().take(40).collect() };
        let at = token.find(|c: char| !c.is_ascii_digit()).ok_or_else(error)?;
        let letter = token[at..].chars().next().ok_or_else(error)?;
        let kind = WorkKind::ALL.into_iter().find(|kind| kind.letter() == letter).ok_or_else(error)?;
        let stage = number(&token[..at]).ok_or_else(error)?;
        let microbatch = number(&token[at + 1..]).ok_or_else(error)?;
        Ok(Self { kind, stage: Stage(stage), microbatch: Microbatch(microbatch) })
    }
}

/// Digits only, and written as `Display` writes them: the round trip is exact, so no leading zeros.
fn number(digits: &str) -> Option<u32> {
    let canonical = !digits.is_empty()
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && (digits == "0" || !digits.starts_with('0'));
    canonical.then(|| digits.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_round_trip_exactly() {
        for kind in WorkKind::ALL {
            for (stage, microbatch) in [(0, 0), (7, 12), (u32::MAX, u32::MAX)] {
                let work = Work { kind, stage: Stage(stage), microbatch: Microbatch(microbatch) };
                assert_eq!(work.to_string().parse(), Ok(work));
            }
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for token in [
            "",
            "F",
            "2F",
            "F0",
            "2F0junk",
            "2BW0",
            "2I",
            " 2F0",
            "2F0 ",
            "02F0",
            "2F00",
            "2f0",
            "-1F0",
            "2F+1",
            "2X0",
            "2F4294967296",
            "é",
        ] {
            let error = token.parse::<Work>().expect_err(token);
            assert!(error.to_string().contains("2F0"), "{error}");
        }
    }
}
