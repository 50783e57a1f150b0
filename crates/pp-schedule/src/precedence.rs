//! Turns that no rank can keep, whatever the others do: a computation before one of the same rank that it needs.
//!
//! On its own rank a backward needs its forward and a weight gradient its input gradient; a forward needs those of the
//! rank's earlier stages, through whatever lies between, and a backward those of its later ones. What is wrong between
//! ranks is for [`crate::verify()`] to say.

use crate::deps::state_from;
use crate::ids::{Chunk, Rank};
use crate::order::{Extent, OrderError};
use crate::work::{Work, WorkKind};

/// The first computation of a rank that stands before one it needs. The row has to cover the rank's part of the extent.
pub(crate) fn check(extent: Extent, rank: Rank, row: &[Work]) -> Result<(), OrderError> {
    // The kinds seen, as bits, by stage and microbatch.
    let mut seen = vec![0_u8; extent.local_len()];
    for &work in row {
        if let Some(needed) =
            needs(extent, rank, work).into_iter().flatten().find(|needed| !needed.is_in(extent, &seen))
        {
            // It covers the extent, so it stands further on.
            let found = row.iter().find(|other| needed.is_met_by(**other));
            return found.map_or(Ok(()), |&needs| Err(OrderError::Early { rank, work, needs }));
        }
        seen[extent.local_idx(work)] |= 1 << work.kind as u8;
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::csv::Grid;
    use crate::format::grid::GridError;

    #[test]
    fn a_computation_before_one_that_it_needs_is_named_with_it() {
        for (text, says) in [
            ("0B0,0F0\n", "rank 0: 0B0 stands before its forward 0F0"),
            ("0F1,0F0,0B1,0I0,0W0\n", ""),
            ("0I0,0F0,0W0\n", "rank 0: 0I0 stands before its forward 0F0"),
            ("0F0,0W0,0I0\n", "rank 0: 0W0 stands before its backward for the input 0I0"),
            ("0W0,0I0,0F0\n", "rank 0: 0W0 stands before its backward for the input 0I0"),
            ("0F0,0B0\n1F0,1F1,1B1,1B0\n", "forwards"),
            // Chunks: in a loop on one rank, in a loop and in a V on two.
            ("1F0,0F0,1B0,0B0\n", "rank 0: 1F0 stands before 0F0, the forward of an earlier stage"),
            ("0F0,1F0,0B0,1B0\n", "rank 0: 0B0 stands before 1B0, the backward of a later stage"),
            ("0F0,1F0,0I0,0W0,1I0,1W0\n", "rank 0: 0I0 stands before 1I0, the backward of a later stage"),
            ("0F0,1F0,0I0,1B0,0W0\n", "rank 0: 0I0 stands before 1B0, the backward of a later stage"),
            ("0F0,1F0,1I0,0B0,1W0\n", ""),
            ("0F0,2F0\n3F0,1F0\n", "rank 1: 3F0 stands before 1F0, the forward of an earlier stage"),
            ("0F0,3F0\n2F0,1F0\n", "rank 1: 2F0 stands before 1F0, the forward of an earlier stage"),
            ("0F0,3F0\n1F0,2F0\n", ""),
        ] {
            let order = Grid::parse(text).expect("cells").to_order();
            match order {
                Ok(_) => assert_eq!(says, "", "{text}"),
                Err(error) => {
                    assert!(!says.is_empty() && error.to_string().contains(says), "{text}: {error}");
                    let early = matches!(error, GridError::Order(OrderError::Early { .. }));
                    assert!(early || says == "forwards", "{text}: {error}");
                }
            }
        }
    }
}
