//! What computations and messages cost, in ticks.

use crate::deps::Message;
use crate::ids::Stage;
use crate::order::Extent;
use crate::placement::Placement;
use crate::work::{Work, WorkKind};

/// What the computations of one stage on one microbatch cost, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StageCosts {
    /// A forward.
    pub forward: u64,
    /// A full backward.
    pub backward: u64,
    /// A backward for the input.
    pub backward_input: u64,
    /// A backward for the weights.
    pub backward_weight: u64,
}

impl StageCosts {
    /// A forward is one tick, as are the two halves of its backward.
    pub const UNIT: Self = Self { forward: 1, backward: 2, backward_input: 1, backward_weight: 1 };

    /// What a computation of a kind costs.
    #[inline]
    pub const fn of(self, kind: WorkKind) -> u64 {
        match kind {
            WorkKind::Forward => self.forward,
            WorkKind::Backward => self.backward,
            WorkKind::BackwardInput => self.backward_input,
            WorkKind::BackwardWeight => self.backward_weight,
        }
    }

    /// Everything that a microbatch costs on the stage: forward and the dearer form of its backward.
    pub const fn microbatch(self) -> u64 {
        let split = self.backward_input + self.backward_weight;
        self.forward + if split > self.backward { split } else { self.backward }
    }
}

/// What a message costs, in ticks: its channel is busy for `transfer`, and `latency` later it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Link {
    /// From when the channel is done with the message until it is there.
    pub latency: u64,
    /// Bytes over bandwidth: how long the channel is taken.
    pub transfer: u64,
}

impl Link {
    /// From when a message leaves until it is there.
    #[inline]
    pub const fn delay(self) -> u64 {
        self.latency.saturating_add(self.transfer)
    }
}

/// Costs of all stages and boundaries. Messages between stages of one rank cost nothing.
///
/// Times are sums of these, in 64 bits: whoever takes costs from elsewhere asks [`Costs::longest`] first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Costs {
    /// Of every stage, unless `stages` says more.
    base: StageCosts,
    /// By stage, or empty.
    stages: Vec<StageCosts>,
    /// Of every boundary, unless `links` says more.
    link: Link,
    /// By boundary: entry `s` is between stages `s` and `s + 1`. Or empty.
    links: Vec<Link>,
    /// What an overlapped pair costs, in all.
    pair: Option<u64>,
}

impl Costs {
    /// Unit costs on every stage, communication free.
    pub const UNIT: Self = Self::uniform(StageCosts::UNIT);

    /// The same costs on every stage, communication free.
    pub const fn uniform(base: StageCosts) -> Self {
        Self { base, stages: Vec::new(), link: Link { latency: 0, transfer: 0 }, links: Vec::new(), pair: None }
    }

    /// Costs by stage, communication free.
    ///
    /// # Panics
    /// If there is none.
    pub fn per_stage(stages: Vec<StageCosts>) -> Self {
        let base = *stages.first().expect("costs of at least one stage");
        Self { stages, ..Self::uniform(base) }
    }

    /// The same with messages that all cost `link`.
    #[must_use]
    pub fn with_link(self, link: Link) -> Self {
        Self { link, links: Vec::new(), ..self }
    }

    /// The same with a cost of messages for every boundary: entry `s` is between stages `s` and `s + 1`, either way.
    #[must_use]
    pub fn with_links(self, links: Vec<Link>) -> Self {
        Self { links, ..self }
    }

    /// The same with overlapped pairs of forward and backward that cost `pair` in all, whichever stages they are of;
    /// without it, the sum of the two. The time is split between the two as their own costs are.
    #[must_use]
    pub fn with_pair(self, pair: u64) -> Self {
        Self { pair: Some(pair), ..self }
    }

    /// What a stage's computations cost.
    ///
    /// # Panics
    /// If costs are by stage and there is none for this one ([`Costs::covers`] tells).
    #[inline]
    pub fn stage(&self, stage: Stage) -> StageCosts {
        if self.stages.is_empty() { self.base } else { self.stages[stage.idx()] }
    }

    /// What a computation costs by itself.
    #[inline]
    pub fn of(&self, work: Work) -> u64 {
        self.stage(work.stage).of(work.kind)
    }

    /// What the two computations of an overlapped pair cost.
    pub fn of_pair(&self, forward: Work, backward: Work) -> [u64; 2] {
        let (first, second) = (self.of(forward), self.of(backward));
        match self.pair {
            Some(pair) if first + second > 0 => {
                let share = u128::from(pair) * u128::from(first) / u128::from(first + second);
                [share as u64, pair - share as u64]
            }
            _ => [first, second],
        }
    }

    /// What a message costs that leaves its rank.
    ///
    /// # Panics
    /// If costs are by boundary and there is none for this one.
    #[inline]
    pub fn link(&self, message: Message) -> Link {
        self.link_to(message.stage.max(message.made_by()))
    }

    /// What a message over the boundary in front of a stage costs.
    ///
    /// # Panics
    /// If the stage is the first, or costs are by boundary and there is none for this one.
    pub fn link_to(&self, stage: Stage) -> Link {
        assert!(stage.0 > 0, "no boundary stands in front of stage 0");
        if self.links.is_empty() { self.link } else { self.links[stage.idx() - 1] }
    }

    /// The costs of every stage, where they are the same and messages are free.
    pub fn uniform_stage(&self, placement: Placement) -> Option<StageCosts> {
        let free = |link: &Link| link.delay() == 0;
        let same = self.stages.iter().all(|stage| *stage == self.base);
        let free = match (placement.n_ranks(), self.links.is_empty()) {
            (1, _) => true,
            (_, true) => free(&self.link),
            (_, false) => self.links.iter().all(free),
        };
        (same && free && self.pair.is_none()).then_some(self.base)
    }

    /// The ticks of all computations and messages of a step, one after the other: no simulation takes longer.
    ///
    /// # Panics
    /// If the costs do not [cover](Costs::covers) the placement.
    pub fn longest(&self, extent: Extent) -> u128 {
        let n_stages = extent.placement.n_stages();
        let link = |stage: Stage| if stage.0 == 0 { 0 } else { u128::from(self.link_to(stage).delay()) };
        let of_stage = |stage| u128::from(self.stage(stage).microbatch()) + 2 * link(stage);
        let microbatch: u128 = (0..n_stages).map(Stage).map(of_stage).sum();
        let pairs = u128::from(self.pair.unwrap_or(0)) * u128::from(n_stages);
        u128::from(extent.microbatches) * (microbatch + pairs)
    }

    /// Whether every stage and boundary of a placement has its costs.
    pub fn covers(&self, placement: Placement) -> bool {
        let n_stages = placement.n_stages() as usize;
        (self.stages.is_empty() || self.stages.len() == n_stages)
            && (self.links.is_empty() || self.links.len() + 1 == n_stages)
    }
}

/// How ticks are shown: so many make one unit, which has a name.
#[derive(Clone, Debug, PartialEq)]
pub struct Scale {
    /// Ticks per unit.
    pub ticks_per_unit: f64,
    /// The unit's name, such as `ms`.
    pub unit: String,
}

impl Scale {
    /// Of unit costs over `vp` chunks per rank: a unit is the forward of a whole rank, a tick that of one chunk.
    pub fn of_chunks(vp: u32) -> Self {
        Self { ticks_per_unit: f64::from(vp), unit: "units".to_owned() }
    }

    /// Of ticks that are nanoseconds, in milliseconds.
    pub fn nanoseconds() -> Self {
        Self { ticks_per_unit: 1e6, unit: "ms".to_owned() }
    }

    /// Ticks in units.
    pub fn of(&self, ticks: u64) -> f64 {
        ticks as f64 / self.ticks_per_unit
    }
}
