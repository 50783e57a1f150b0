//! Stages that are slow for what they hold.

use pp_schedule::{LayerPartition, Stage};

use super::{StageTimes, median};

/// A stage is called slow from this many times the median of its peers on: the other stages with as many layers, or all
/// others where none has as many.
pub const SLOW_FROM: f64 = 1.25;

/// A stage that takes clearly longer than its peers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlowStage {
    /// The stage.
    pub stage: Stage,
    /// Milliseconds of a step that it computes.
    pub ms: f64,
    /// The median of its peers.
    pub peers_ms: f64,
    /// How many there are.
    pub n_peers: usize,
    /// Whether they have as many layers as the stage.
    pub alike: bool,
}

impl SlowStage {
    /// How many times as long as its peers it takes.
    pub fn times(&self) -> f64 {
        self.ms / self.peers_ms
    }
}

/// The slow stages, slowest first. Stages without layers are not judged.
pub(crate) fn slow_stages(stages: &[StageTimes], layers: &LayerPartition) -> Vec<SlowStage> {
    let counts: Vec<u32> = layers.counts().collect();
    let judge = |(at, times): (usize, &StageTimes)| {
        let others = (0..stages.len()).filter(|&peer| peer != at && counts[peer] > 0);
        let (same, different): (Vec<usize>, Vec<usize>) = others.partition(|&peer| counts[peer] == counts[at]);
        let alike = !same.is_empty();
        let peers = if alike { same } else { different };
        let peers: Vec<f64> = peers.into_iter().map(|peer| stages[peer].busy_ms).collect();
        let (n_peers, ms) = (peers.len(), times.busy_ms);
        let peers_ms = median(peers);
        let slow = SlowStage { stage: Stage(times.stage), ms, peers_ms, n_peers, alike };
        (counts[at] > 0 && peers_ms > 0.0 && slow.times() >= SLOW_FROM).then_some(slow)
    };
    let mut slow: Vec<SlowStage> = stages.iter().enumerate().filter_map(judge).collect();
    slow.sort_by(|one, other| other.times().total_cmp(&one.times()));
    slow
}
