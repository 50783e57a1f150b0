//! What each rank of a candidate holds at its fullest.

use std::collections::BTreeSet;

use super::stages::Stages;
use crate::config::ScheduleConfig;
use crate::deps::{Message, input_of, output_of};
use crate::ids::{Microbatch, Rank};
use crate::lower::lanes;
use crate::order::Order;
use crate::placement::Placement;
use crate::simulate::{After, Span, levels};
use crate::work::Work;

/// Bytes of one rank at its fullest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankMemory {
    /// The rank.
    pub rank: Rank,
    /// Parameters with their gradients and the optimizer's state.
    pub weights: u64,
    /// Activations in flight and what deferred weight gradients need, at the worst moment.
    pub saved: u64,
    /// What a backward computes again, for the largest layer.
    pub working: u64,
    /// Buffers of messages.
    pub messages: u64,
}

impl RankMemory {
    /// All of it.
    pub const fn total(self) -> u64 {
        self.weights + self.saved + self.working + self.messages
    }
}

/// By rank. What is saved follows from the turn of a rank's computations alone, whenever they run.
pub(super) fn memory(
    config: &ScheduleConfig,
    order: &Order,
    stages: &Stages,
    message: u64,
    n_replicas: u32,
) -> Vec<RankMemory> {
    let placement = config.placement();
    let ranks = (0..).map(Rank).zip(order.rows()).map(|(rank, row)| {
        let loads = || placement.stages_of(rank).map(|stage| &stages.loads[stage.idx()]);
        RankMemory {
            rank,
            weights: loads().map(|load| load.weights.on_replica(n_replicas)).sum(),
            saved: peak(row, order.extent().forward_only, stages),
            working: loads().map(|load| load.working).max().unwrap_or(0),
            messages: u64::from(n_buffers(config, rank)) * message,
        }
    });
    ranks.collect()
}

/// The rank that holds the most; of several, the first.
pub(super) fn fullest(ranks: &[RankMemory]) -> Option<RankMemory> {
    ranks.iter().copied().min_by_key(|memory| (std::cmp::Reverse(memory.total()), memory.rank))
}

fn peak(row: &[Work], forward_only: bool, stages: &Stages) -> u64 {
    let span = |(at, &work): (u64, &Work)| Span { work, start: at, end: at, after: After::Nothing };
    let row: Vec<Span> = (0..).zip(row).map(span).collect();
    levels(&row, forward_only, |stage| stages.bytes(stage)).iter().map(|level| level.bytes).max().unwrap_or(0)
}

/// The most message buffers that the rank's program can have under the `lanes` policy: for each of its channels, the
/// receives that are posted ahead or the sends that may be in flight.
fn n_buffers(config: &ScheduleConfig, rank: Rank) -> u32 {
    let (placement, options) = (config.placement(), lanes::Options::for_config(config));
    let mut channels = BTreeSet::new();
    for stage in placement.stages_of(rank) {
        for work in [Work::forward(stage, Microbatch(0)), Work::backward(stage, Microbatch(0))] {
            for (message, receives) in [(input_of(work, placement), true), (output_of(work, placement), false)] {
                let Some(message) = message.filter(|message| crosses(*message, placement)) else { continue };
                let (from, to) = (placement.rank_of(message.made_by()), placement.rank_of(message.stage));
                let peer = if receives { from } else { to };
                let ring = placement.chunk_of(message.made_by()) != placement.chunk_of(message.stage);
                channels.insert((peer, message.direction as usize, receives, ring));
            }
        }
    }
    let of = |(_, _, receives, ring): (Rank, usize, bool, bool)| match (receives, ring) {
        (false, _) => options.sends_in_flight,
        (true, false) => options.receives_ahead,
        (true, true) => options.ring_receives_ahead,
    };
    channels.into_iter().map(of).sum()
}

/// Whether a message leaves its rank.
pub(super) fn crosses(message: Message, placement: Placement) -> bool {
    placement.rank_of(message.made_by()) != placement.rank_of(message.stage)
}
