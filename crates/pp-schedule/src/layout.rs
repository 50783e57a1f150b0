//! The one partition of layers over stages: model, checkpoint, planner and report all ask here.

use std::ops::Range;

use crate::ids::Stage;
use crate::placement::Placement;

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

    /// The layers of a stage, 0-based.
    ///
    /// # Panics
    /// If there is no such stage.
    pub fn range(&self, stage: Stage) -> Range<u32> {
        self.bounds[stage.idx()]..self.bounds[stage.idx() + 1]
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

/// Why layers cannot be partitioned as asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// They do not divide evenly.
    #[error(
        "--num-layers {n_layers} does not divide over {} stages (--pp {pp} x --vp {vp}); nearest that works: \
         --num-layers {}, or --layer-split with a count per stage",
        pp * vp, nearest_multiples(*n_layers, pp * vp)
    )]
    NotDivisible {
        /// Layers.
        n_layers: u32,
        /// Pipeline ranks.
        pp: u32,
        /// Chunks per rank.
        vp: u32,
    },
    /// Not a count per stage.
    #[error("--layer-split gives {given} counts, but there are {n_stages} stages: one count per stage, in stage order")]
    Stages {
        /// Counts given.
        given: usize,
        /// Stages.
        n_stages: u32,
    },
    /// The counts do not add up.
    #[error("--layer-split adds up to {sum} layers, but --num-layers is {n_layers}; change one of them")]
    Sum {
        /// Their sum.
        sum: u64,
        /// Layers.
        n_layers: u32,
    },
}

fn nearest_multiples(n_layers: u32, n_stages: u32) -> String {
    let below = n_layers / n_stages * n_stages;
    let above = u64::from(below) + u64::from(n_stages);
    if below == 0 { above.to_string() } else { format!("{below} or {above}") }
}
