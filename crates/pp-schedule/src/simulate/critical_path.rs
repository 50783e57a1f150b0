//! The chain of computations that no other could have shortened: from the last to end back to the first.

use super::timeline::{After, Timeline};
use crate::ids::Rank;

/// The chain that decides the makespan. Every computation on it starts as soon as the one before it on the chain lets it.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct CriticalPath {
    /// The computations in the order of time: rank, and number in the rank's row.
    pub steps: Vec<(Rank, u32)>,
    /// Ticks in which they compute.
    pub compute: u64,
    /// Ticks between them: messages on their way.
    pub communication: u64,
}

/// The critical path of a timeline; of chains that are equally long, one.
pub fn critical_path(timeline: &Timeline) -> CriticalPath {
    let rows = timeline.rows();
    let last = (0..).zip(rows).filter_map(|(rank, row)| Some((row.last()?.end, rank, row.len() as u32 - 1)));
    // Of several ranks that end last, the first.
    let Some((makespan, rank, index)) = last.min_by_key(|&(end, rank, _)| (std::cmp::Reverse(end), rank)) else {
        return CriticalPath::default();
    };
    let (mut steps, mut compute) = (Vec::new(), 0);
    let mut at = Some((Rank(rank), index));
    while let Some((rank, index)) = at {
        let span = &rows[rank.idx()][index as usize];
        steps.push((rank, index));
        compute += span.end - span.start;
        at = match span.after {
            After::Nothing => None,
            After::Previous => index.checked_sub(1).map(|previous| (rank, previous)),
            After::Other { rank, index } => Some((rank, index)),
        };
    }
    steps.reverse();
    CriticalPath { steps, compute, communication: makespan - compute }
}
