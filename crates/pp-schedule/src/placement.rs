//! Which rank holds which stage: stage -> (rank, chunk) and back.

use crate::ids::{Chunk, Rank, Stage};

/// Stages dealt to ranks in a loop: stage `s` lives on rank `s % pp` as chunk `s / pp`.
///
/// This is Megatron's placement; with `vp == 1` it is the plain pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Placement {
    pp: u32,
    vp: u32,
}

impl Placement {
    /// Ranks and chunks per rank; both at least 1 ([`crate::ScheduleConfig`] sees to it).
    pub(crate) fn new(pp: u32, vp: u32) -> Self {
        debug_assert!(pp >= 1 && vp >= 1);
        Self { pp, vp }
    }

    /// Number of ranks.
    pub const fn n_ranks(self) -> u32 {
        self.pp
    }

    /// Model chunks on each rank.
    pub const fn n_chunks(self) -> u32 {
        self.vp
    }

    /// Global stages, `pp * vp`.
    pub const fn n_stages(self) -> u32 {
        self.pp * self.vp
    }

    /// The rank that holds a stage.
    #[inline]
    pub const fn rank_of(self, stage: Stage) -> Rank {
        Rank(stage.0 % self.pp)
    }

    /// The chunk, on its rank, that a stage is.
    #[inline]
    pub const fn chunk_of(self, stage: Stage) -> Chunk {
        Chunk(stage.0 / self.pp)
    }

    /// The stage that a rank's chunk is.
    #[inline]
    pub const fn stage_of(self, rank: Rank, chunk: Chunk) -> Stage {
        Stage(chunk.0 * self.pp + rank.0)
    }

    /// Whether it is the first stage, which embeds and receives no activation.
    #[inline]
    pub const fn is_first(self, stage: Stage) -> bool {
        stage.0 == 0
    }

    /// Whether it is the last stage, which owns the loss and sends no activation.
    #[inline]
    pub const fn is_last(self, stage: Stage) -> bool {
        stage.0 + 1 == self.n_stages()
    }

    /// The stages of one rank, ascending by chunk.
    pub fn stages_of(self, rank: Rank) -> impl Iterator<Item = Stage> {
        (0..self.vp).map(move |chunk| self.stage_of(rank, Chunk(chunk)))
    }
}
