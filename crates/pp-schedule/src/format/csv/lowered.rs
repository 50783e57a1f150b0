//! Transfers and marks where torch adds them when it loads a file of computations.
//!
//! So a file can be judged as torch will run it, and torch can be given the very actions that were judged. Transfers: the
//! ranks take turns, one action each. Whoever computes something that another rank needs sends it at once, and the receive is
//! put behind what that rank has by then. So sends and receives of two ranks stand in one order at both ends, whoever runs
//! ahead. Marks, for sharded parameters: up to three stages, those that the rank computes next, are unsharded.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::{Grid, MarkKind, Token, TransferKind};
use crate::deps::{Message, input_of, output_of};
use crate::ids::{Direction, Rank, Stage};
use crate::order::{Extent, Order};
use crate::placement::Placement;
use crate::work::{Work, WorkKind};

/// Stages whose parameters are whole at a time, or one more where two are computed together.
const MAX_UNSHARDED: usize = 3;

/// An order whose computations wait for each other in a circle, so that there is no place for the transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "rank {rank} never gets what {work} needs: the computations wait for each other in a circle, which `verify` shows"
)]
pub struct Circular {
    /// The lowest rank that is stuck.
    pub rank: Rank,
    /// What it would compute next.
    pub work: Work,
}

impl Grid {
    /// The order with the transfers and marks that torch 2.13 adds to it, where it adds them.
    ///
    /// # Errors
    /// [`Circular`] if the computations cannot all run.
    pub fn lowered_as_torch(order: &Order) -> Result<Self, Circular> {
        let extent = order.extent();
        let rows = Self::from(order).rows.into_iter();
        add_transfers(
            extent.placement,
            rows.map(|row| add_marks(extent, row.into_iter().flatten().collect())).collect(),
        )
    }
}

/// The tokens with `UNSHARD` and `RESHARD` around the use of each stage, and `REDUCE_GRAD` after its last backward.
fn add_marks(extent: Extent, tokens: Vec<Token>) -> Vec<Token> {
    let mark = |kind| move |stage| Token::Mark { kind, stage };
    let (mut marked, mut whole) = (Vec::with_capacity(tokens.len()), BTreeSet::new());
    let mut backwards: BTreeMap<Stage, u32> = BTreeMap::new();
    for (token, next) in tokens.iter().zip(next_stages(&tokens)) {
        let unused: Vec<Stage> = whole.iter().copied().filter(|stage| !next.contains(stage)).collect();
        marked.extend(unused.iter().copied().map(mark(MarkKind::Reshard)));
        unused.iter().for_each(|stage| _ = whole.remove(stage));
        marked.extend(next.into_iter().filter(|stage| whole.insert(*stage)).map(mark(MarkKind::Unshard)));
        marked.push(*token);
        for work in token.works().filter(|work| matches!(work.kind, WorkKind::Backward | WorkKind::BackwardWeight)) {
            let count = backwards.entry(work.stage).or_default();
            *count += 1;
            if *count == extent.microbatches {
                marked.push(Token::Mark { kind: MarkKind::ReduceGrad, stage: work.stage });
            }
        }
    }
    marked.extend(whole.into_iter().map(mark(MarkKind::Reshard)));
    marked
}

/// For each token the stages that are computed from it on, in turn, as many as may be unsharded.
fn next_stages(tokens: &[Token]) -> Vec<Vec<Stage>> {
    // From the end, so that each stage's next use is known.
    let mut next_use: BTreeMap<Stage, (usize, usize)> = BTreeMap::new();
    let mut all: Vec<Vec<Stage>> = tokens
        .iter()
        .enumerate()
        .rev()
        .map(|(at, token)| {
            let mut works: Vec<(usize, Work)> = token.works().enumerate().collect();
            // The first half last: of a pair within one stage, it is the next use.
            works.reverse();
            next_use.extend(works.into_iter().map(|(half, work)| (work.stage, (at, half))));
            let mut in_turn: Vec<((usize, usize), Stage)> = next_use.iter().map(|(stage, at)| (*at, *stage)).collect();
            in_turn.sort_unstable();
            // A pair is never cut in two.
            let cut = in_turn.get(MAX_UNSHARDED - 1).map_or(usize::MAX, |((at, _), _)| *at);
            in_turn.into_iter().take_while(|((at, _), _)| *at <= cut).map(|(_, stage)| stage).collect()
        })
        .collect();
    all.reverse();
    all
}

/// The rows with each transfer behind the computation that makes it, at both ends.
fn add_transfers(placement: Placement, rows: Vec<Vec<Token>>) -> Result<Grid, Circular> {
    let mut placed: Vec<Vec<Option<Token>>> = vec![Vec::new(); rows.len()];
    let mut waiting: Vec<_> = rows.into_iter().map(|row| row.into_iter().peekable()).collect();
    let mut made = HashSet::new();
    loop {
        let (mut moved, mut stuck) = (false, None);
        for (rank, row) in waiting.iter_mut().enumerate() {
            let Some(token) = row.peek().copied() else { continue };
            let missing =
                token.works().find(|work| input_of(*work, placement).is_some_and(|input| !made.contains(&input)));
            if let Some(work) = missing {
                stuck = stuck.or(Some(Circular { rank: Rank(rank as u32), work }));
                continue;
            }
            row.next();
            moved = true;
            placed[rank].push(Some(token));
            for message in token.works().filter_map(|work| output_of(work, placement)) {
                made.insert(message);
                let Message { direction, stage, microbatch } = message;
                let receiver = placement.rank_of(stage).idx();
                if receiver != rank {
                    let (send, receive) = kinds(direction);
                    placed[rank].push(Some(Token::Transfer { kind: send, stage: message.made_by(), microbatch }));
                    placed[receiver].push(Some(Token::Transfer { kind: receive, stage, microbatch }));
                }
            }
        }
        match stuck {
            Some(circular) if !moved => return Err(circular),
            _ if moved => {}
            _ => return Ok(Grid { rows: placed }),
        }
    }
}

const fn kinds(direction: Direction) -> (TransferKind, TransferKind) {
    match direction {
        Direction::Forward => (TransferKind::SendForward, TransferKind::ReceiveForward),
        Direction::Backward => (TransferKind::SendBackward, TransferKind::ReceiveBackward),
    }
}
