//! Why a search cannot start.

use super::problem::{MAX_PAIRS, MAX_TICKS};

/// Why there is no order for a problem.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SynthError {
    /// Nothing to order.
    #[error("{what} is 0, but must be at least 1")]
    Empty {
        /// What is 0.
        what: &'static str,
    },
    /// Neither the plain pipeline nor the V.
    #[error("{given} chunks per rank: the search knows 1 and 2, the V")]
    Chunks {
        /// Chunks asked for.
        given: u32,
    },
    /// More than a search is made for.
    #[error("{pairs} pairs of stage and microbatch: at most {MAX_PAIRS} are searched")]
    TooLarge {
        /// Stages times microbatches.
        pairs: u64,
    },
    /// Costs whose sums would not fit.
    #[error(
        "one after the other, all computations and messages would take more than {MAX_TICKS} ticks; use a larger unit"
    )]
    TooLong,
    /// Less memory than any order needs.
    #[error("a limit of {limit} half-activations is too small for any order: the smallest that works is {smallest}")]
    Memory {
        /// The limit given.
        limit: u64,
        /// The smallest limit under which there are orders.
        smallest: u64,
    },
}
