//! The model cut into stages: what each stage costs, keeps and weighs.

use super::model::{Model, Part, Recompute, Weights};
use crate::ids::Stage;
use crate::layout::{LayerPartition, LayoutError};
use crate::placement::Placement;
use crate::quantity::Bandwidth;
use crate::simulate::{Costs, Link, StageBytes, StageCosts};

/// What ranks are and how they are joined.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Machine {
    /// Bytes that a rank has; without, memory is no limit.
    pub memory: Option<u64>,
    /// From when a message has left until it is there, in ticks.
    pub latency: u64,
    /// Of the link that carries messages between stages; without, they take the latency alone.
    pub bandwidth: Option<Bandwidth>,
    /// Of a replica's link to the others; without, adding up gradients is free.
    pub replica_bandwidth: Option<Bandwidth>,
}

impl Machine {
    /// What a message of so many bytes costs.
    pub fn link(&self, bytes: u64) -> Link {
        Link { latency: self.latency, transfer: self.bandwidth.map_or(0, |bandwidth| bandwidth.ticks(bytes)) }
    }

    /// How long replicas take to add up gradients in a ring, in ticks: `2 (n - 1) / n` of the bytes pass each link.
    pub fn reduce(&self, bytes: u64, n_replicas: u32) -> u64 {
        let Some(bandwidth) = self.replica_bandwidth.filter(|_| n_replicas > 1) else { return 0 };
        let passing = u128::from(bytes) * 2 * u128::from(n_replicas - 1) / u128::from(n_replicas);
        bandwidth.ticks(u64::try_from(passing).unwrap_or(u64::MAX))
    }
}

/// What one stage costs, keeps and weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageLoad {
    /// Costs per microbatch.
    pub costs: StageCosts,
    /// Bytes kept per microbatch.
    pub bytes: StageBytes,
    /// Bytes that a backward takes on top, for what it computes again, a layer at a time.
    pub working: u64,
    /// Its parameters.
    pub weights: Weights,
}

/// A model on stages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stages {
    /// Which layers each stage has.
    pub layers: LayerPartition,
    /// By stage.
    pub loads: Vec<StageLoad>,
    /// What messages between ranks cost.
    pub link: Link,
}

impl Stages {
    /// Cuts a model so that the dearest stage is as cheap as can be; see [`LayerPartition::balanced`].
    ///
    /// # Errors
    /// As [`LayerPartition::balanced`], such as fewer layers than stages.
    pub fn balanced(
        model: &Model,
        recompute: Recompute,
        placement: Placement,
        machine: &Machine,
    ) -> Result<Self, LayoutError> {
        let costs: Vec<u64> =
            (0..model.layers.len()).map(|layer| layer_of(model, layer, recompute).0.microbatch()).collect();
        let (embedding, head) = (model.embedding.microbatch(), model.head.microbatch());
        let layers = LayerPartition::balanced(&costs, embedding, head, placement)?;
        let loads = (0..placement.n_stages()).map(|stage| load(model, &layers, Stage(stage), recompute)).collect();
        Ok(Self { layers, loads, link: machine.link(model.message) })
    }

    /// For the simulator.
    pub fn costs(&self) -> Costs {
        Costs::per_stage(self.loads.iter().map(|load| load.costs).collect()).with_link(self.link)
    }

    /// What a stage keeps, for the simulator.
    ///
    /// # Panics
    /// If there is no such stage.
    pub fn bytes(&self, stage: Stage) -> StageBytes {
        self.loads[stage.idx()].bytes
    }
}

/// A layer under a way to recompute, and what its backward takes for a while to compute again.
fn layer_of(model: &Model, layer: usize, recompute: Recompute) -> (Part, u64) {
    let layer = model.layers[layer];
    let part = layer.part;
    match (recompute, layer.core) {
        (Recompute::Selective, Some(core)) => {
            let (backward_input, activation) =
                (part.backward_input + core.forward, part.activation.saturating_sub(core.bytes));
            (Part { backward_input, activation, ..part }, core.bytes)
        }
        (Recompute::None | Recompute::Selective, _) => (part, 0),
        (Recompute::Full, _) => {
            let activation = layer.input.min(part.activation);
            let backward_input = part.backward_input + part.forward;
            (Part { backward_input, activation, ..part }, part.activation - activation)
        }
    }
}

fn load(model: &Model, layers: &LayerPartition, stage: Stage, recompute: Recompute) -> StageLoad {
    let mut costs = StageCosts { forward: 0, backward: 0, backward_input: 0, backward_weight: 0 };
    let (mut bytes, mut weights, mut working) = (StageBytes::default(), Weights::default(), 0);
    let mut add = |part: Part| {
        costs.forward += part.forward;
        costs.backward += part.backward();
        costs.backward_input += part.backward_input;
        costs.backward_weight += part.backward_weight;
        bytes.activation += part.activation;
        bytes.deferred += part.deferred;
        weights += part.weights;
    };
    if stage.0 == 0 {
        add(model.embedding);
    }
    for layer in layers.range(stage) {
        let (part, for_a_while) = layer_of(model, layer as usize, recompute);
        add(part);
        working = working.max(for_a_while);
    }
    if stage.0 + 1 == layers.n_stages() {
        add(model.head);
    }
    StageLoad { costs, bytes, working, weights }
}
