//! How long the sequences of a training step are, microbatch by microbatch.

use std::fmt;

use crate::args::Args;
use crate::batch::GLOBAL;
use crate::invalid::Invalid;
use crate::nearest::{Refusal, Try};

const FLAG: &str = "--variable-seq-lengths";
const SEQ_LENGTH: &str = "--seq-length";

/// The lengths of a step's microbatches, each within 1 and `--seq-length`, in turn and again from the first where there are
/// more microbatches. Those of a step follow from a microbatch's number alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SeqLengths {
    /// All as long as the model has positions.
    Full(usize),
    /// At least one.
    Given(Vec<usize>),
}

impl SeqLengths {
    /// What the flags say, for steps of so many microbatches.
    pub(crate) fn new(args: &Args, microbatches: u32) -> Result<Self, Refusal> {
        let most = args.seq_length;
        let Some(text) = &args.variable_seq_lengths else { return Ok(Self::Full(most as usize)) };
        let lengths = text.split(',').map(|word| {
            word.trim().parse::<u32>().map_err(|_| {
                Invalid(format!(
                    "{FLAG} `{text}`: `{word}` is no length; write one per microbatch such as 5,7,3,9, each within 1 and \
                     {SEQ_LENGTH} {most}"
                ))
            })
        });
        let lengths = lengths.collect::<Result<Vec<u32>, Invalid>>()?;
        if let Some(beyond) = lengths.iter().find(|&length| !(1..=most).contains(length)) {
            let nearest: Vec<u32> = lengths.iter().map(|&length| length.clamp(1, most)).collect();
            let rule =
                format!("{FLAG} {text}: {beyond} is not within 1 and {SEQ_LENGTH} {most}, as {} is", list(&nearest));
            return Err(Refusal::new(
                rule,
                lengths.into_iter().max().map(|longest| Try::To(SEQ_LENGTH, longest.into())),
            ));
        }
        let n_lengths = lengths.len() as u64;
        if n_lengths > microbatches.into() {
            let rule = format!(
                "{FLAG} {text} has {n_lengths} lengths, more than the microbatches of a step, {microbatches}, as {} has",
                list(&lengths[..microbatches as usize])
            );
            let tries =
                [Try::To("--microbatches", n_lengths), Try::To(GLOBAL, n_lengths * u64::from(args.micro_batch_size))];
            return Err(Refusal::new(rule, tries));
        }
        Ok(Self::Given(lengths.into_iter().map(|length| length as usize).collect()))
    }

    /// That of a microbatch.
    pub(crate) fn of(&self, microbatch: usize) -> usize {
        match self {
            Self::Full(length) => *length,
            Self::Given(lengths) => lengths[microbatch % lengths.len()],
        }
    }

    /// The longest of them.
    pub(crate) fn longest(&self) -> usize {
        match self {
            Self::Full(length) => *length,
            Self::Given(lengths) => lengths.iter().copied().max().unwrap_or(0),
        }
    }

    /// Whether they are given one by one, so that messages may differ in size.
    pub(crate) const fn vary(&self) -> bool {
        matches!(self, Self::Given(_))
    }
}

impl fmt::Display for SeqLengths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full(length) => write!(f, "{length}"),
            Self::Given(lengths) => f.write_str(&list(lengths)),
        }
    }
}

fn list<T: fmt::Display>(lengths: &[T]) -> String {
    lengths.iter().map(T::to_string).collect::<Vec<_>>().join(",")
}
