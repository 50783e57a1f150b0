//! A compute order: what each rank computes, in turn, before anything is said about communication.

use crate::config::{MAX_CELLS, ScheduleConfig};
pub use crate::extent::Extent;
use crate::ids::{Rank, Stage};
use crate::precedence;
use crate::schedules;
use crate::work::{Work, WorkKind};

/// The compute order of every rank.
///
/// ```
/// use pp_schedule::{Order, ScheduleConfig, ScheduleSpec};
/// let config = ScheduleConfig::new(&ScheduleSpec::new(2, 1, 3)).unwrap();
/// let order = Order::generate(&config);
/// let first: Vec<String> = order.rows()[0].iter().map(|work| work.to_string()).collect();
/// assert_eq!(first.join(" "), "0F0 0F1 0B0 0F2 0B1 0B2");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    extent: Extent,
    rows: Vec<Vec<Work>>,
    /// By rank, ascending: where a forward stands that overlaps with the backward after it.
    pairs: Vec<Vec<u32>>,
}

impl Order {
    /// The order that a configuration's generator makes.
    pub fn generate(config: &ScheduleConfig) -> Self {
        let rows = schedules::all_orders(config);
        let pairs = (0..config.pp()).map(|rank| schedules::rank_pairs(config, Rank(rank))).collect();
        Self { extent: config.into(), rows, pairs }
    }

    /// An order made elsewhere.
    ///
    /// # Errors
    /// [`OrderError`] unless every forward, and unless forward-only every backward (whole, or input then weight), of
    /// every stage and microbatch stands exactly once, on the stage's rank, and after what it needs of that rank.
    pub fn new(extent: Extent, rows: Vec<Vec<Work>>) -> Result<Self, OrderError> {
        let n_ranks = extent.placement.n_ranks() as usize;
        if rows.len() != n_ranks {
            return Err(OrderError::Ranks { given: rows.len(), expected: n_ranks });
        }
        // Before anything of the extent's size is allocated.
        let (n_stages, microbatches) = (u64::from(extent.placement.n_stages()), u64::from(extent.microbatches));
        if n_stages.saturating_mul(microbatches) > MAX_CELLS {
            return Err(OrderError::TooLarge { n_stages, microbatches });
        }
        for (rank, row) in rows.iter().enumerate() {
            check_row(extent, Rank(rank as u32), row.iter().copied())?;
        }
        for (rank, row) in rows.iter().enumerate() {
            let rank = Rank(rank as u32);
            if let Some((work, needs)) = precedence::first_early(extent, rank, row) {
                return Err(OrderError::Early { rank, work, needs });
            }
        }
        let pairs = vec![Vec::new(); rows.len()];
        Ok(Self { extent, rows, pairs })
    }

    /// The same order with overlapped pairs: by rank, ascending, where a forward stands that runs together with the full
    /// backward after it. In the order they stand one after the other, and so they run where nothing can overlap them.
    ///
    /// # Errors
    /// [`OrderError::NotAPair`] where no forward stands, no full backward after it, or one computation is in two pairs;
    /// [`OrderError::Ranks`] unless there is a list per rank.
    pub fn with_pairs(self, pairs: Vec<Vec<u32>>) -> Result<Self, OrderError> {
        if pairs.len() != self.rows.len() {
            return Err(OrderError::Ranks { given: pairs.len(), expected: self.rows.len() });
        }
        for (rank, (starts, row)) in pairs.iter().zip(&self.rows).enumerate() {
            let mut free_from = 0;
            for &start in starts {
                let kind = |index: u32| row.get(index as usize).map(|work| work.kind);
                let is_pair = kind(start) == Some(WorkKind::Forward)
                    && start.checked_add(1).and_then(kind) == Some(WorkKind::Backward);
                if start < free_from || !is_pair {
                    return Err(OrderError::NotAPair { rank: Rank(rank as u32), start });
                }
                free_from = start + 2;
            }
        }
        Ok(Self { pairs, ..self })
    }

    /// Where a rank's overlapped pairs start, ascending; see [`Order::with_pairs`].
    ///
    /// # Panics
    /// If there is no such rank.
    pub fn pairs(&self, rank: Rank) -> &[u32] {
        &self.pairs[rank.idx()]
    }

    /// What it is over.
    pub const fn extent(&self) -> Extent {
        self.extent
    }

    /// The computations of each rank, in turn.
    pub fn rows(&self) -> &[Vec<Work>] {
        &self.rows
    }
}

/// Coverage of one rank: every computation of its stages exactly once, and no other.
pub(crate) fn check_row(extent: Extent, rank: Rank, row: impl Iterator<Item = Work>) -> Result<(), OrderError> {
    let mut coverage = Coverage::new(extent, rank);
    for work in row {
        coverage.mark(work)?;
    }
    coverage.complete()
}

/// What a rank has computed so far.
pub(crate) struct Coverage {
    extent: Extent,
    rank: Rank,
    /// The kinds seen, as bits, by stage and microbatch.
    seen: Vec<u8>,
}

impl Coverage {
    pub(crate) fn new(extent: Extent, rank: Rank) -> Self {
        Self { extent, rank, seen: vec![0; extent.local_len()] }
    }

    /// Takes in the next computation.
    #[inline]
    pub(crate) fn mark(&mut self, work: Work) -> Result<(), OrderError> {
        let Extent { placement, microbatches, forward_only } = self.extent;
        let known = work.stage.0 < placement.n_stages() && work.microbatch.0 < microbatches;
        if !known || (forward_only && work.kind != WorkKind::Forward) {
            let n_stages = placement.n_stages();
            return Err(OrderError::Unknown { rank: self.rank, work, n_stages, microbatches, forward_only });
        }
        let owner = placement.rank_of(work.stage);
        if owner != self.rank {
            return Err(OrderError::WrongRank { rank: self.rank, work, owner });
        }
        let bit = 1 << work.kind as u8;
        let seen = &mut self.seen[self.extent.local_idx(work)];
        if *seen & bit != 0 {
            return Err(OrderError::Twice { rank: self.rank, work });
        }
        *seen |= bit;
        Ok(())
    }

    /// Whether nothing is missing at the end.
    pub(crate) fn complete(&self) -> Result<(), OrderError> {
        let Extent { placement, microbatches, forward_only } = self.extent;
        let stages = self.seen.chunks(microbatches.max(1) as usize);
        for (stage, seen) in placement.stages_of(self.rank).zip(stages) {
            for (microbatch, &seen) in (0..).zip(seen) {
                if let Some(fault) = fault_of(seen, forward_only) {
                    return Err(OrderError::Incomplete { rank: self.rank, stage, microbatch, fault });
                }
            }
        }
        Ok(())
    }
}

fn fault_of(seen: u8, forward_only: bool) -> Option<&'static str> {
    const F: u8 = 1 << WorkKind::Forward as u8;
    const B: u8 = 1 << WorkKind::Backward as u8;
    const I: u8 = 1 << WorkKind::BackwardInput as u8;
    const W: u8 = 1 << WorkKind::BackwardWeight as u8;
    match seen {
        _ if seen & F == 0 => Some("no forward (F)"),
        F if forward_only => None,
        bits if bits == F | B || bits == F | I | W => None,
        F => Some("no backward: either B, or I and W"),
        bits if bits & B != 0 => Some("both a full backward (B) and a part of one (I or W)"),
        bits if bits & I != 0 => Some("an input gradient (I) without its weight gradient (W)"),
        _ => Some("a weight gradient (W) without its input gradient (I)"),
    }
}

/// How a computation depends on another of its rank.
fn dependence(work: Work, needs: Work) -> String {
    match needs.kind {
        _ if work.stage > needs.stage => format!("{needs}, the forward of an earlier stage"),
        _ if work.stage < needs.stage => format!("{needs}, the backward of a later stage"),
        WorkKind::Forward => format!("its forward {needs}"),
        _ => format!("its backward for the input {needs}"),
    }
}

/// Why an order does not cover a step, or cannot run on one of its ranks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OrderError {
    /// Not a row per rank.
    #[error("{given} rows are given, but there are {expected} ranks: one row per rank")]
    Ranks {
        /// Rows given.
        given: usize,
        /// Ranks.
        expected: usize,
    },
    /// A step larger than any program may be.
    #[error(
        "{n_stages} stages x {microbatches} microbatches is more than {MAX_CELLS} pairs, the most a program may have; use \
         fewer microbatches"
    )]
    TooLarge {
        /// Stages.
        n_stages: u64,
        /// Microbatches.
        microbatches: u64,
    },
    /// A computation outside the extent.
    #[error(
        "rank {rank}: {work} is outside this step, which has stages 0..{n_stages} and microbatches 0..{microbatches}{}",
        if *forward_only { ", forwards only" } else { "" }
    )]
    Unknown {
        /// The rank.
        rank: Rank,
        /// The computation.
        work: Work,
        /// Stages there are.
        n_stages: u32,
        /// Microbatches there are.
        microbatches: u32,
        /// Whether there are forwards only.
        forward_only: bool,
    },
    /// A computation on a rank that does not hold its stage.
    #[error("rank {rank}: {work} stands here, but stage {} lives on rank {owner}", work.stage)]
    WrongRank {
        /// The rank it stands on.
        rank: Rank,
        /// The computation.
        work: Work,
        /// The rank that holds the stage.
        owner: Rank,
    },
    /// A computation that stands more than once.
    #[error("rank {rank}: {work} stands twice")]
    Twice {
        /// The rank.
        rank: Rank,
        /// The computation.
        work: Work,
    },
    /// A computation before one of the same rank that it needs.
    #[error("rank {rank}: {work} stands before {}", dependence(*work, *needs))]
    Early {
        /// The rank.
        rank: Rank,
        /// The computation.
        work: Work,
        /// What it needs, directly or through stages of other ranks; it stands further on.
        needs: Work,
    },
    /// An overlapped pair that is none.
    #[error("rank {rank}, computation {start}: an overlapped pair is a forward and the full backward right after it")]
    NotAPair {
        /// The rank.
        rank: Rank,
        /// Where the pair starts in the rank's row.
        start: u32,
    },
    /// Something is missing or too much for one stage and microbatch.
    #[error("rank {rank}: stage {stage}, microbatch {microbatch} has {fault}")]
    Incomplete {
        /// The rank.
        rank: Rank,
        /// The stage.
        stage: Stage,
        /// The microbatch.
        microbatch: u32,
        /// What is wrong.
        fault: &'static str,
    },
}
