//! Why arguments make no request.

use crate::plan::GptError;
use crate::quantity::{QuantityError, Time};

/// Arguments that make no request.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PlanArgsError {
    /// A size or time that is none.
    #[error(transparent)]
    Quantity(#[from] QuantityError),
    /// A shape that is none.
    #[error(transparent)]
    Gpt(#[from] GptError),
    /// Another number of times.
    #[error("`{text}` has {given} times; write F,B or F,I,W such as 2.1ms,4.2ms")]
    Triple {
        /// What was typed.
        text: String,
        /// How many times it has.
        given: usize,
    },
    /// Nothing says what a layer costs.
    #[error(
        "nothing says what a layer costs: give --layer-cost, or --hidden-size, --num-heads, --seq-length and --flops"
    )]
    NoCosts,
    /// A head that is too much beside a layer.
    #[error(
        "by its operations beside a layer's, the head takes more than {} per microbatch; give --head-cost",
        Time::MAX
    )]
    Head,
    /// A size of zero, or too large.
    #[error("{flag} {value} is not within 1..={most}")]
    Size {
        /// The flag.
        flag: &'static str,
        /// Its value.
        value: u32,
        /// The most.
        most: u32,
    },
}
