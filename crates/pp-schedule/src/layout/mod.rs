//! The one partition of layers over stages: model, checkpoint, planner and report all ask here.
//!
//! Layers come to stages in one of five ways:
//!
//! | way | made by |
//! |---|---|
//! | the same number everywhere | [`LayerPartition::even`], [`LayoutSpec`] |
//! | counts for the first and the last rank, the rest even | [`LayoutSpec`] |
//! | embedding and loss counted as a layer each | [`LayoutSpec`] |
//! | Megatron's layout string or lists, `Et*3\|(tt\|)*29,m\|L` | [`LayoutPattern`] in a [`LayoutSpec`] |
//! | a count per stage; or balanced by cost | [`LayerPartition::from_counts`], [`LayerPartition::balanced`] |
//!
//! A [`LayerPartition`] covers every layer exactly once, in order; nothing else can be made.
//!
//! # Where this differs from Megatron
//! A [`LayoutSpec`] is accepted, and layers assigned, as Megatron does (`TransformerConfig`,
//! `get_num_layers_to_build`, `get_transformer_layer_offset`), but for what crashes or makes no sense there:
//!
//! - `first + last == n_layers` on two ranks with `vp` set divides by zero in Megatron: refused
//!   ([`LayoutError::NoMiddleRanks`]).
//! - `first` and `last` both set on one rank lets the last one win in Megatron: refused
//!   ([`LayoutError::FirstAndLastOnOneRank`]).
//! - `first + last > n_layers` gives the middle ranks a negative number of layers in Megatron, if it divides.
//!   [`LayoutSpec::resolve`] says so, and [`Assignment::partition`] refuses it ([`LayoutError::NegativeCount`]).
//! - `pp` of 1 ignores `vp` in Megatron (every chunk gets every layer, at offset 0): here the chunks share the layers,
//!   also when the chunks come from a layout.
//! - A layout without any layer (`""`, `[]`, `|`) is an index out of range in Megatron, and sizes of 0 divide by zero:
//!   refused.
//! - In a layout string, a repetition by 0 erases anything in Megatron, also what is no layer (`Ex*0tL`, `E((t)*0tL`):
//!   here what is no layer is refused wherever it stands.
//! - MTP layers are parsed and checked as Megatron does, but not trained ([`Assignment::check_trainable`]).

mod assignment;
mod balance;
mod counts;
mod error;
mod layer_type;
mod limits;
mod pattern;
mod pattern_error;
mod spec;
mod unroll;

use std::ops::Range;

use crate::ids::Stage;
use crate::placement::Placement;

pub use assignment::Assignment;
pub use balance::balance;
pub use error::LayoutError;
pub use layer_type::LayerType;
pub use limits::{MAX_BALANCED_LAYERS, MAX_PATTERN_LEN, MAX_STAGES};
pub use pattern::LayoutPattern;
pub use pattern_error::PatternError;
pub use spec::LayoutSpec;

/// Which layers each stage holds. It covers every layer exactly once, in order.
///
/// ```
/// use pp_schedule::{LayerPartition, ScheduleConfig, ScheduleSpec, Stage};
/// let placement = ScheduleConfig::new(&ScheduleSpec::new(2, 2, 4)).unwrap().placement();
/// let layers = LayerPartition::even(8, placement).unwrap();
/// assert_eq!(layers.range(Stage(2)), 4..6); // rank 0, chunk 1
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerPartition {
    /// The first layer of each stage, and the number of layers.
    bounds: Vec<u32>,
}

impl LayerPartition {
    /// The same number of layers on every stage.
    ///
    /// # Errors
    /// [`LayoutError::NotDivisible`] when they do not divide.
    pub fn even(n_layers: u32, placement: Placement) -> Result<Self, LayoutError> {
        let n_stages = placement.n_stages();
        if n_layers == 0 || !n_layers.is_multiple_of(n_stages) {
            let (pp, vp) = (placement.n_ranks(), placement.n_chunks());
            return Err(LayoutError::NotDivisible { n_layers, pp, vp });
        }
        Self::from_counts(&vec![n_layers / n_stages; n_stages as usize], n_layers, placement)
    }

    /// A number of layers for each stage, in stage order. A stage may have none.
    ///
    /// # Errors
    /// [`LayoutError`] unless there is a count per stage and they add up to `n_layers`.
    pub fn from_counts(counts: &[u32], n_layers: u32, placement: Placement) -> Result<Self, LayoutError> {
        let n_stages = placement.n_stages();
        if counts.len() != n_stages as usize {
            return Err(LayoutError::Stages { given: counts.len(), n_stages });
        }
        let sum: u64 = counts.iter().copied().map(u64::from).sum();
        if sum != u64::from(n_layers) {
            return Err(LayoutError::Sum { sum, n_layers });
        }
        let mut bounds = vec![0];
        bounds.extend(counts.iter().scan(0, |end, count| {
            *end += count;
            Some(*end)
        }));
        Ok(Self { bounds })
    }

    /// The partition whose dearest stage is as cheap as can be, with at least one layer on every stage; see
    /// [`balance()`].
    ///
    /// ```
    /// use pp_schedule::{LayerPartition, ScheduleConfig, ScheduleSpec, Stage};
    /// let placement = ScheduleConfig::new(&ScheduleSpec::new(4, 1, 8)).unwrap().placement();
    /// // Fourteen layers of cost 2; the head and its loss cost as much as two of them.
    /// let layers = LayerPartition::balanced(&[2; 14], 0, 4, placement).unwrap();
    /// assert_eq!(layers.counts().collect::<Vec<_>>(), [4, 4, 4, 2]);
    /// ```
    ///
    /// # Errors
    /// As [`balance()`].
    pub fn balanced(costs: &[u64], embedding: u64, loss: u64, placement: Placement) -> Result<Self, LayoutError> {
        let counts = balance(costs, placement.n_stages(), embedding, loss)?;
        Self::from_counts(&counts, costs.len() as u32, placement)
    }

    /// The layers of a stage, 0-based.
    ///
    /// # Panics
    /// If there is no such stage.
    pub fn range(&self, stage: Stage) -> Range<u32> {
        self.bounds[stage.idx()]..self.bounds[stage.idx() + 1]
    }

    /// How many layers each stage has, in stage order.
    pub fn counts(&self) -> impl Iterator<Item = u32> {
        self.bounds.windows(2).map(|bounds| bounds[1] - bounds[0])
    }

    /// All layers.
    pub fn n_layers(&self) -> u32 {
        self.bounds.last().copied().unwrap_or(0)
    }

    /// Number of stages.
    pub fn n_stages(&self) -> u32 {
        self.bounds.len() as u32 - 1
    }
}
