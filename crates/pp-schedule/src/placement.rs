//! Which rank holds which stage: stage -> (rank, chunk) and back.

use crate::ids::{Chunk, Rank, Stage};

/// Stages on ranks, as many on each rank as on every other.
///
/// In a loop, stage `s` lives on rank `s % pp` as chunk `s / pp`: Megatron's placement, and with `vp == 1` the plain
/// pipeline. In a V, every odd chunk is dealt backwards, so that the stages `pp - 1` and `pp` share the last rank and, with
/// two chunks, the first and the last stage share rank 0; a message between stages of one rank does not leave it.
///
/// ```
/// use pp_schedule::{Placement, Rank, Stage};
/// let v = Placement::v(4);
/// assert_eq!((0..8).map(|stage| v.rank_of(Stage(stage)).0).collect::<Vec<_>>(), [0, 1, 2, 3, 3, 2, 1, 0]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Placement {
    pp: u32,
    vp: u32,
    shape: Shape,
}

/// The way stages are dealt to ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Shape {
    /// From rank 0 to the last, again and again.
    #[default]
    Loop,
    /// From rank 0 to the last, then back.
    V,
}

impl Shape {
    /// Its name in files and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Loop => "loop",
            Self::V => "v",
        }
    }
}

impl Placement {
    /// Ranks and chunks per rank; both at least 1 ([`crate::ScheduleConfig`] sees to it).
    pub(crate) fn new(pp: u32, vp: u32) -> Self {
        Self::shaped(Shape::Loop, pp, vp)
    }

    pub(crate) fn shaped(shape: Shape, pp: u32, vp: u32) -> Self {
        debug_assert!(pp >= 1 && vp >= 1);
        // With one chunk both are the same; equal placements have to be equal.
        Self { pp, vp, shape: if vp == 1 { Shape::Loop } else { shape } }
    }

    /// A loop over `pp` ranks with `vp` chunks each.
    ///
    /// # Panics
    /// If either is 0.
    pub fn looped(pp: u32, vp: u32) -> Self {
        assert!(pp >= 1 && vp >= 1, "a placement has at least one rank and one chunk");
        Self::shaped(Shape::Loop, pp, vp)
    }

    /// The V of two chunks per rank.
    ///
    /// # Panics
    /// If `pp` is 0.
    pub fn v(pp: u32) -> Self {
        assert!(pp >= 1, "a placement has at least one rank");
        Self::shaped(Shape::V, pp, 2)
    }

    /// How stages are dealt to ranks.
    pub const fn shape(self) -> Shape {
        self.shape
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

    /// Whether a chunk's stages go from the last rank to rank 0.
    const fn is_backwards(self, chunk: u32) -> bool {
        matches!(self.shape, Shape::V) && chunk % 2 == 1
    }

    /// The rank that holds a stage.
    #[inline]
    pub const fn rank_of(self, stage: Stage) -> Rank {
        let place = stage.0 % self.pp;
        Rank(if self.is_backwards(stage.0 / self.pp) { self.pp - 1 - place } else { place })
    }

    /// The chunk, on its rank, that a stage is.
    #[inline]
    pub const fn chunk_of(self, stage: Stage) -> Chunk {
        Chunk(stage.0 / self.pp)
    }

    /// The stage that a rank's chunk is.
    #[inline]
    pub const fn stage_of(self, rank: Rank, chunk: Chunk) -> Stage {
        let place = if self.is_backwards(chunk.0) { self.pp - 1 - rank.0 } else { rank.0 };
        Stage(chunk.0 * self.pp + place)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_and_chunks_lead_back_to_their_stage() {
        for (shape, pp, vp) in [(Shape::Loop, 3, 4), (Shape::V, 3, 4), (Shape::V, 1, 2), (Shape::V, 5, 1)] {
            let placement = Placement::shaped(shape, pp, vp);
            for stage in (0..pp * vp).map(Stage) {
                let (rank, chunk) = (placement.rank_of(stage), placement.chunk_of(stage));
                assert!(rank.0 < pp && chunk.0 < vp);
                assert_eq!(placement.stage_of(rank, chunk), stage);
                assert!(placement.stages_of(rank).any(|other| other == stage));
            }
        }
    }

    #[test]
    fn with_one_chunk_a_v_is_a_loop() {
        assert_eq!(Placement::shaped(Shape::V, 4, 1), Placement::looped(4, 1));
    }
}
