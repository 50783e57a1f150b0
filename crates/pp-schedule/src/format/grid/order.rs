//! Grids to orders and back.

use std::collections::HashSet;

use super::{Grid, Token};
use crate::ids::{Microbatch, Rank, Stage};
use crate::order::{Extent, Order, OrderError};
use crate::placement::{Placement, Shape};
use crate::work::{Work, WorkKind};

impl From<&Order> for Grid {
    /// A row per rank, without idle steps.
    fn from(order: &Order) -> Self {
        let rows = (0..).map(Rank).zip(order.rows()).map(|(rank, row)| tokens(row, order.pairs(rank)));
        Self { rows: rows.collect() }
    }
}

/// A row's cells, with its overlapped pairs in one cell each.
fn tokens(row: &[Work], pairs: &[u32]) -> Vec<Option<Token>> {
    let (mut pairs, mut cells) = (pairs.iter().peekable(), Vec::with_capacity(row.len()));
    let mut works = (0..).zip(row);
    while let Some((index, work)) = works.next() {
        let second = pairs.next_if(|start| **start == index).and_then(|_| works.next());
        cells.push(Some(match second {
            None => Token::Work(*work),
            Some((_, second)) => {
                Token::Overlap { forward: (work.stage, work.microbatch), backward: (second.stage, second.microbatch) }
            }
        }));
    }
    cells
}

impl Grid {
    /// The rank that computes each stage, by stage.
    ///
    /// # Errors
    /// [`GridError`] if there are no computations, a stage is on two ranks, or one below the highest is on none.
    pub fn stage_to_rank(&self) -> Result<Vec<Rank>, GridError> {
        let n_works: u64 = self.ranked_works().map(|_| 1).sum();
        let highest = self.ranked_works().map(|(_, work)| work.stage).max().ok_or(GridError::Empty)?;
        // A stage at least per computation, or some stage has none: so a huge number is refused, not allocated.
        let n_stages = u64::from(highest.0) + 1;
        let mut ranks = vec![None; n_stages.min(n_works + 1) as usize];
        for (rank, work) in self.ranked_works() {
            let Some(owner) = ranks.get_mut(work.stage.idx()) else { continue };
            match *owner {
                Some(other) if other != rank => {
                    return Err(GridError::OnTwoRanks { stage: work.stage, ranks: [other, rank] });
                }
                _ => *owner = Some(rank),
            }
        }
        match ranks.iter().position(Option::is_none) {
            Some(stage) => Err(GridError::OnNoRank { stage: Stage(stage as u32), highest }),
            None => Ok(ranks.into_iter().flatten().collect()),
        }
    }

    /// The order of a grid without transfers: idle steps and marks are left out. The number of stages and microbatches are those that are named.
    ///
    /// # Errors
    /// [`GridError`] if there is a transfer (see [`Grid::compute_only`]), stages are not dealt to ranks in a loop or a V as
    /// [`Placement`] has them, or something is missing or stands twice.
    pub fn to_order(&self) -> Result<Order, GridError> {
        for (rank, row) in self.rows.iter().enumerate() {
            let transfer = |cell: &Option<Token>| matches!(cell, Some(Token::Transfer { .. }));
            if let Some((step, Some(token))) = row.iter().enumerate().find(|(_, cell)| transfer(cell)) {
                return Err(GridError::Transfer { rank: Rank(rank as u32), step, token: *token });
            }
        }
        let placement = self.placement()?;
        let works = || self.ranked_works().map(|(_, work)| work);
        let last = works().map(|work| work.microbatch).max().ok_or(GridError::Empty)?;
        let forward_only = works().all(|work| work.kind == WorkKind::Forward);
        self.check_forwards(placement, last)?;
        let extent = Extent { placement, microbatches: last.0 + 1, forward_only };
        let rows = self.rows.iter().map(|row| row.iter().flatten().flat_map(|token| token.works()).collect());
        Ok(Order::new(extent, rows.collect())?.with_pairs(self.pairs())?)
    }

    /// By rank: where, among its computations, the overlapped pairs start.
    fn pairs(&self) -> Vec<Vec<u32>> {
        let row = |row: &Vec<Option<Token>>| {
            let mut n_works = 0;
            let mut starts = Vec::new();
            for token in row.iter().flatten() {
                if matches!(token, Token::Overlap { .. }) {
                    starts.push(n_works);
                }
                n_works += token.works().count() as u32;
            }
            starts
        };
        self.rows.iter().map(row).collect()
    }

    /// The loop or V that the stages are dealt in.
    ///
    /// # Errors
    /// [`GridError`] if there are no computations, a stage is on two ranks or none, ranks hold different numbers of stages, or
    /// they are dealt in another way.
    pub fn placement(&self) -> Result<Placement, GridError> {
        let stage_to_rank = self.stage_to_rank()?;
        let (n_ranks, n_stages) = (self.rows.len(), stage_to_rank.len());
        if !n_stages.is_multiple_of(n_ranks) {
            return Err(GridError::StagesNotDivisible { n_stages, n_ranks });
        }
        let mut candidates = [Shape::Loop, Shape::V].map(|shape| {
            let placement = Placement::shaped(shape, n_ranks as u32, (n_stages / n_ranks) as u32);
            let elsewhere = |(stage, rank): (usize, &Rank)| placement.rank_of(Stage(stage as u32)) != *rank;
            (stage_to_rank.iter().enumerate().position(elsewhere), placement)
        });
        // The one that goes on longest is the one that was meant.
        candidates.sort_by_key(|(first_elsewhere, _)| std::cmp::Reverse(first_elsewhere.unwrap_or(usize::MAX)));
        let (first_elsewhere, placement) = candidates[0];
        first_elsewhere.map_or(Ok(placement), |stage| {
            let (rank, stage) = (stage_to_rank[stage], Stage(stage as u32));
            Err(GridError::NoPlacement { stage, rank, shape: placement.shape(), expected: placement.rank_of(stage) })
        })
    }

    /// Every stage has a forward for each microbatch up to the last one named; counted before anything of that size is
    /// allocated.
    fn check_forwards(&self, placement: Placement, last: Microbatch) -> Result<(), GridError> {
        let (n_stages, microbatches) = (placement.n_stages(), u64::from(last.0) + 1);
        let expected = u64::from(n_stages) * microbatches;
        let forwards = self.ranked_works().filter(|(_, work)| work.kind == WorkKind::Forward).count() as u64;
        if forwards < expected {
            let missing = self.first_missing_forward(n_stages, last);
            return Err(GridError::TooFewForwards { forwards, expected, n_stages, last, missing });
        }
        Ok(())
    }

    /// By stage, then microbatch; it is among the first that are not there, so few are looked at.
    fn first_missing_forward(&self, n_stages: u32, last: Microbatch) -> Work {
        let forwards: HashSet<Work> =
            self.ranked_works().map(|(_, work)| work).filter(|work| work.kind == WorkKind::Forward).collect();
        let all = (0..n_stages).flat_map(|stage| (0..=last.0).map(move |m| Work::forward(Stage(stage), Microbatch(m))));
        all.take(forwards.len() + 1)
            .find(|work| !forwards.contains(work))
            .unwrap_or(Work::forward(Stage(0), Microbatch(0)))
    }

    fn ranked_works(&self) -> impl Iterator<Item = (Rank, Work)> {
        let ranked = self.rows.iter().enumerate().map(|(rank, row)| (Rank(rank as u32), row));
        ranked
            .flat_map(|(rank, row)| row.iter().flatten().flat_map(|token| token.works()).map(move |work| (rank, work)))
    }
}

/// Why a grid is no compute order.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GridError {
    /// It has no computations.
    #[error("no computations: expected a row per rank with cells such as `0F0`")]
    Empty,
    /// It has communication.
    #[error(
        "rank {rank}, step {step}: `{token}` is a transfer, but an order has computations only; leave the transfers out"
    )]
    Transfer {
        /// The rank.
        rank: Rank,
        /// The step, from 0.
        step: usize,
        /// The transfer.
        token: Token,
    },
    /// A stage is computed by two ranks.
    #[error("stage {stage} stands on rank {} and on rank {}; each stage lives on one rank", ranks[0], ranks[1])]
    OnTwoRanks {
        /// The stage.
        stage: Stage,
        /// Two of its ranks.
        ranks: [Rank; 2],
    },
    /// A stage is computed by no rank.
    #[error("stage {stage} stands on no rank, but stage {highest} is named; number the stages from 0 without gaps")]
    OnNoRank {
        /// The lowest stage that is missing.
        stage: Stage,
        /// The highest stage that is named.
        highest: Stage,
    },
    /// The stages are dealt neither in a loop nor in a V.
    #[error(
        "stage {stage} stands on rank {rank}, but stages are dealt to ranks in a loop (0, 1, 2, 0, 1, 2) or in a V \
         (0, 1, 2, 2, 1, 0), and here a {} puts it on rank {expected}", shape.name()
    )]
    NoPlacement {
        /// The first stage that is elsewhere.
        stage: Stage,
        /// Its rank.
        rank: Rank,
        /// The shape that fits the stages before it.
        shape: Shape,
        /// The rank that this shape puts it on.
        expected: Rank,
    },
    /// The last round of the loop is not full.
    #[error("{n_stages} stages do not divide over {n_ranks} ranks; each rank holds as many as every other")]
    StagesNotDivisible {
        /// Stages named.
        n_stages: usize,
        /// Rows.
        n_ranks: usize,
    },
    /// Some forwards are missing.
    #[error(
        "{forwards} forwards stand here, but stages 0..{n_stages} and microbatches 0..={last} need {expected}, each stage \
         one per microbatch; the first missing is {missing}"
    )]
    TooFewForwards {
        /// Forwards there are.
        forwards: u64,
        /// Forwards needed.
        expected: u64,
        /// Stages named.
        n_stages: u32,
        /// The highest microbatch named.
        last: Microbatch,
        /// The first that is missing.
        missing: Work,
    },
    /// It does not cover the step.
    #[error(transparent)]
    Order(#[from] OrderError),
}
