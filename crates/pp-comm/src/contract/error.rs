//! Why there is no step, or not to its end.

use pp_schedule::lower::stagger::StaggerError;
use pp_schedule::{ConfigError, Stage, VerifyError};

use crate::executor::ExecError;
use crate::message::{Boundary, BufferError};

/// Why a step was not run, or failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ContractError {
    /// A name that no schedule has.
    #[error("there is no schedule `{name}`; known are {}", known.join(", "))]
    UnknownSchedule {
        /// The name.
        name: String,
        /// The names there are, sorted.
        known: Vec<&'static str>,
    },
    /// Another number of inputs than there are owners.
    #[error("{given} inputs are given, but {expected} have an owner; give each step the same inputs")]
    Arity {
        /// How many there are to be.
        expected: usize,
        /// How many there are.
        given: usize,
    },
    /// Nothing that a batch could be seen from.
    #[error("none of the {n_inputs} inputs is a tensor, so that there is no batch to cut into microbatches")]
    NoTensor {
        /// How many inputs there are.
        n_inputs: usize,
    },
    /// A tensor without rows.
    #[error(
        "input {input} has no dimensions, but tensors are cut along the first; give it as an integer, or with a row per sample"
    )]
    NoRows {
        /// The place of the input.
        input: usize,
    },
    /// Tensors of a different number of rows.
    #[error(
        "input {input} has {rows} rows, but the tensors before it have {batch}; every tensor needs a row per sample"
    )]
    Rows {
        /// The place of the input.
        input: usize,
        /// Its rows.
        rows: usize,
        /// Those of the others.
        batch: usize,
    },
    /// Microbatches of nothing.
    #[error("microbatches of 0 rows are asked for; each needs at least 1")]
    EmptyMicrobatch,
    /// A batch that microbatches do not divide.
    #[error("a batch of {batch} rows cannot be cut into microbatches of {microbatch_size}; {}",
        nearest(*batch, *microbatch_size))]
    Remainder {
        /// Rows of the batch.
        batch: usize,
        /// Rows of a microbatch.
        microbatch_size: usize,
    },
    /// More microbatches than can be counted.
    #[error(
        "a batch of {batch} rows gives more than {} microbatches of {microbatch_size}, the most there may be; give fewer \
         rows or larger microbatches",
        u32::MAX
    )]
    TooManyMicrobatches {
        /// Rows of the batch.
        batch: usize,
        /// Rows of a microbatch.
        microbatch_size: usize,
    },
    /// A schedule that takes turns, with fewer microbatches than ranks.
    #[error(
        "1f1b over {n_stages} ranks needs at least as many microbatches, but the batch gives {microbatches}; give more \
         rows, smaller microbatches, or use gpipe"
    )]
    TooFewMicrobatches {
        /// Microbatches there are.
        microbatches: u32,
        /// Ranks, one for each stage.
        n_stages: u32,
    },
    /// An owner that there is not.
    #[error("input {input} is for stage {owner}, but the stages are 0 to {}", n_stages - 1)]
    NoSuchOwner {
        /// The place of the input.
        input: usize,
        /// Its owner.
        owner: Stage,
        /// Stages there are.
        n_stages: usize,
    },
    /// Sizes that no program has.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A schedule that cannot be lowered.
    #[error(transparent)]
    Stagger(#[from] StaggerError),
    /// A program that is not sound.
    #[error(transparent)]
    Verify(#[from] VerifyError),
    /// The step stopped somewhere; its source says why.
    #[error(transparent)]
    Exec(#[from] ExecError),
    /// Gradients could not be averaged.
    #[error("the gradients could not be averaged over {microbatches} microbatches")]
    Average {
        /// By what they were to be divided.
        microbatches: u32,
        /// The stage's own error.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// The sizes of microbatches that divide a batch, next to one that does not.
fn nearest(batch: usize, size: usize) -> String {
    if batch == 0 {
        return "give at least one microbatch".to_owned();
    }
    let divides = |candidate: &usize| batch.is_multiple_of(*candidate);
    let (below, above) = ((1..size.min(batch + 1)).rev().find(divides), (size..=batch).find(divides));
    let sizes: Vec<String> = [below, above].into_iter().flatten().map(|size| size.to_string()).collect();
    format!("nearest that work: {}", sizes.join(" or "))
}

/// What goes wrong in a stage: its own error, or a result that it may not give.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModuleError<E: std::error::Error + 'static> {
    /// The stage's own error.
    #[error(transparent)]
    Module(E),
    /// The last stage made something else than a loss.
    #[error("the last stage makes a loss of one f32 or f64, but it made {found}")]
    NoLoss {
        /// What it made.
        found: Boundary,
    },
    /// A stage other than the first gave no gradient of its input, or the first one did.
    #[error("stage {stage} {}",
        if *gives { "takes no activation, but gave a gradient for one" } else { "gave no gradient of its activation" })]
    Gradient {
        /// The stage.
        stage: Stage,
        /// Whether it gave one.
        gives: bool,
    },
    /// A computation that this contract has none of, or out of turn: the program is not the one that was built.
    #[error("the program is not one of this contract: {0}")]
    Unsound(String),
    /// A microbatch could not be cut, or a gradient not be made.
    #[error(transparent)]
    Buffer(#[from] BufferError),
}
