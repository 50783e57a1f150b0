//! Turns that no rank can keep, whatever the others do: a computation before one of the same rank that it needs.
//!
//! On its own rank a backward needs its forward and a weight gradient its input gradient; a forward needs those of the
//! rank's earlier stages, through whatever lies between, and a backward those of its later ones. What is wrong between
//! ranks is for [`crate::verify()`] to say.

use crate::deps::state_from;
use crate::extent::Extent;
use crate::ids::{Chunk, Rank};
use crate::work::{Work, WorkKind};

/// The first computation of a rank that stands before one it needs, and that one. The row has to cover the rank's part of the
/// extent.
pub(crate) fn first_early(extent: Extent, rank: Rank, row: &[Work]) -> Option<(Work, Work)> {
    // The kinds seen, as bits, by stage and microbatch.
    let mut seen = vec![0_u8; extent.local_len()];
    for &work in row {
        let needs = needs(extent, rank, work);
        if let Some(needed) = needs.into_iter().flatten().find(|needed| !needed.is_in(extent, &seen)) {
            // It covers the extent, so it stands further on.
            return row.iter().find(|other| needed.is_met_by(**other)).map(|&needed| (work, needed));
        }
        seen[extent.local_idx(work)] |= 1 << work.kind as u8;
    }
    None
}

/// A computation of this stage and microbatch, of either kind.
#[derive(Clone, Copy)]
struct Needed {
    work: Work,
    or: WorkKind,
}

impl Needed {
    fn is_in(self, extent: Extent, seen: &[u8]) -> bool {
        seen[extent.local_idx(self.work)] & (1 << self.work.kind as u8 | 1 << self.or as u8) != 0
    }

    fn is_met_by(self, other: Work) -> bool {
        let place = |work: Work| (work.stage, work.microbatch);
        place(self.work) == place(other) && [self.work.kind, self.or].contains(&other.kind)
    }
}

/// What a computation needs of its rank: the state it takes over, and what the chunk before or behind it makes.
fn needs(extent: Extent, rank: Rank, work: Work) -> [Option<Needed>; 2] {
    let placement = extent.placement;
    let chunk = placement.chunk_of(work.stage).0;
    let state = state_from(work.kind).map(|kind| Needed { work: Work { kind, ..work }, or: kind });
    let other = match work.kind {
        WorkKind::Forward => chunk.checked_sub(1).map(|chunk| (chunk, WorkKind::Forward)),
        WorkKind::Backward | WorkKind::BackwardInput => Some((chunk + 1, WorkKind::BackwardInput)),
        WorkKind::BackwardWeight => None,
    };
    let other = other.filter(|(chunk, _)| *chunk < placement.n_chunks()).map(|(chunk, kind)| {
        let stage = placement.stage_of(rank, Chunk(chunk));
        let or = if kind == WorkKind::Forward { kind } else { WorkKind::Backward };
        Needed { work: Work { kind, stage, ..work }, or }
    });
    [state, other]
}
