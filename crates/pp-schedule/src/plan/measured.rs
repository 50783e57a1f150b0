//! Costs of layers from those of the stages that a measured step ran in.

use super::model::{Layer, Model, Part};
use crate::ids::Stage;
use crate::layout::LayerPartition;
use crate::simulate::Costs;

/// Why no costs of layers can be told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MeasuredError {
    /// The layers are cut for another number of stages.
    #[error(
        "the step was measured over {measured} stages, but the layers are cut for {given}; give the counts it ran with"
    )]
    Stages {
        /// Stages that were measured.
        measured: u32,
        /// Stages of the partition.
        given: u32,
    },
    /// A stage without layers, whose time nobody can be charged with.
    #[error("stage {stage} ran without layers; measure a step in which each stage has one")]
    NoLayers {
        /// The stage.
        stage: Stage,
    },
}

/// Costs of a stage: forward, backward for the input, backward for the weights.
type Triple = [u64; 3];

/// A model with the costs that its stages were measured to have, in ticks of a nanosecond; its bytes and weights are zero.
///
/// A stage's cost is spread evenly over its layers, but for the first and the last stage where there are others between:
/// layers there cost what they cost on the stages between (the median of these) if the stage costs as much, and what is
/// left is the embedding's and the head's.
///
/// # Errors
/// [`MeasuredError`] when the layers are cut for another number of stages than `n_stages`, or a stage has none.
///
/// # Panics
/// If there are costs by stage and none for one of them.
pub fn measured(costs: &Costs, n_stages: u32, layers: &LayerPartition) -> Result<Model, MeasuredError> {
    if layers.n_stages() != n_stages {
        return Err(MeasuredError::Stages { measured: n_stages, given: layers.n_stages() });
    }
    let counts: Vec<u64> = layers.counts().map(u64::from).collect();
    if let Some(stage) = counts.iter().position(|count| *count == 0) {
        return Err(MeasuredError::NoLayers { stage: Stage(stage as u32) });
    }
    let of_stage = |stage| {
        let costs = costs.stage(Stage(stage));
        [costs.forward, costs.backward_input, costs.backward_weight]
    };
    let stages: Vec<Triple> = (0..n_stages).map(of_stage).collect();
    let mut per_layer: Vec<Triple> = stages.iter().zip(&counts).map(|(costs, n)| costs.map(|cost| cost / n)).collect();
    let (mut embedding, mut head) = ([0; 3], [0; 3]);
    if let [first, between @ .., last] = per_layer.as_mut_slice()
        && !between.is_empty()
    {
        let usual: Triple = std::array::from_fn(|at| median(between.iter().map(|costs| costs[at]).collect()));
        for (end, stage, left) in [(first, 0, &mut embedding), (last, stages.len() - 1, &mut head)] {
            for at in 0..3 {
                end[at] = end[at].min(usual[at]);
                left[at] = stages[stage][at] - end[at] * counts[stage];
            }
        }
    }
    let part = |[forward, backward_input, backward_weight]: Triple| Part {
        forward,
        backward_input,
        backward_weight,
        ..Part::default()
    };
    let of_stage = |(costs, n): (&Triple, &u64)| vec![Layer { part: part(*costs), ..Layer::default() }; *n as usize];
    let layers = per_layer.iter().zip(&counts).flat_map(of_stage).collect();
    Ok(Model { layers, embedding: part(embedding), head: part(head), message: 0 })
}

/// The middle value; of two, the lower.
fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values.len().checked_sub(1).map_or(0, |last| values[last / 2])
}
