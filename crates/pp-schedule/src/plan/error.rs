//! Why a candidate cannot be tried, and why there is no plan at all.

use crate::config::ConfigError;
use crate::layout::LayoutError;

/// A rule that a schedule breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rule {
    /// The schedule's.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Of layers on stages.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// Of a number of ranks: what comes of the batch.
    #[error("{0}")]
    Batch(String),
}

/// Why there is no plan at all.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PlanError {
    /// A model without layers.
    #[error("there are no layers to plan for; give --num-layers")]
    NoLayers,
    /// Nothing is left to try.
    #[error("nothing can be tried: {0}")]
    NoCandidate(Rule),
    /// No schedule, number of ranks or way to recompute was named.
    #[error("nothing can be tried: no {what} is left; known: {known}")]
    Nothing {
        /// Of what there is none.
        what: &'static str,
        /// Those there are.
        known: String,
    },
    /// Sums that do not fit.
    #[error("all {what} of a step add up to more than 2^62; use smaller costs or fewer microbatches")]
    Costs {
        /// Of what.
        what: &'static str,
    },
    /// A model that takes no time.
    #[error("no layer takes any time; give --layer-cost, or a shape and --flops")]
    NoCosts,
}
