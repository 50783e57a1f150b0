//! What an order or a program is over.

use crate::config::ScheduleConfig;
use crate::placement::Placement;
use crate::work::Work;

/// What every order and program is over: stages on ranks, microbatches, and whether there are backwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Extent {
    /// Which rank holds which stage.
    pub placement: Placement,
    /// Microbatches per step.
    pub microbatches: u32,
    /// Forwards only.
    pub forward_only: bool,
}

impl From<&ScheduleConfig> for Extent {
    fn from(config: &ScheduleConfig) -> Self {
        Self { placement: config.placement(), microbatches: config.microbatches(), forward_only: config.forward_only() }
    }
}

impl Extent {
    /// Dense index of a stage and microbatch among those of the stage's rank.
    #[inline]
    pub(crate) fn local_idx(self, work: Work) -> usize {
        self.placement.chunk_of(work.stage).idx() * self.microbatches as usize + work.microbatch.idx()
    }

    /// Pairs of stage and microbatch on one rank.
    pub(crate) fn local_len(self) -> usize {
        self.placement.n_chunks() as usize * self.microbatches as usize
    }
}
