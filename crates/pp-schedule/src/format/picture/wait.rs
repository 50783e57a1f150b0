//! What a computation waited for.

use crate::ids::Rank;
use crate::simulate::{After, Timeline};
use crate::work::Work;

/// The time between a computation and the one before it on its rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::format) struct Wait {
    /// How long, in ticks.
    pub(in crate::format) ticks: u64,
    /// What ended, so that it could start: on which rank, and what. `None` if that was not another rank.
    pub(in crate::format) waited_for: Option<(Rank, Work)>,
}

/// The wait before a computation. For a rank's first it is the time since 0; `None` if there is no such computation.
pub(in crate::format) fn before(timeline: &Timeline, rank: usize, index: usize) -> Option<Wait> {
    let row = timeline.rows().get(rank)?;
    let span = row.get(index)?;
    let free = index.checked_sub(1).map_or(0, |previous| row[previous].end);
    let waited_for = match span.after {
        After::Other { rank, index } => {
            let cause = timeline.rows().get(rank.idx()).and_then(|row| row.get(index as usize));
            cause.map(|cause| (rank, cause.work))
        }
        After::Nothing | After::Previous => None,
    };
    Some(Wait { ticks: span.start.saturating_sub(free), waited_for })
}
