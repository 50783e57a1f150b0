//! The clock of dependencies: an order played out with a delay per message and no queues.

use super::costs::Costs;
use super::timeline::{After, Span, Timeline};
use crate::deps::{input_of, output_of, state_from};
use crate::ids::Rank;
use crate::order::Order;
use crate::work::Work;

/// An order whose computations wait for each other in a circle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the order never gets past {work} on rank {rank}: what it needs is never made")]
pub struct Stuck {
    /// A rank that is stuck.
    pub rank: Rank,
    /// The computation it is stuck at.
    pub work: Work,
}

/// When something is there, and who made it; not there yet without.
type Made = Option<(u64, u32)>;

impl Timeline {
    /// Plays an order out: each computation starts as soon as the one before it on its rank has ended, the message it
    /// consumes is there, and the state it needs was left. A message between ranks is there [`super::Link::delay`] after
    /// it was made, however many are under way.
    ///
    /// # Errors
    /// [`Stuck`] when some computation can never start.
    ///
    /// # Panics
    /// If the costs do not [cover](Costs::covers) the order's placement.
    pub fn of_order(order: &Order, costs: &Costs) -> Result<Self, Stuck> {
        let mut play = Play::new(order, costs);
        let mut ready: Vec<usize> = (0..order.rows().len()).rev().collect();
        while let Some(rank) = ready.pop() {
            play.advance(rank, &mut ready);
        }
        let rows = play.rows;
        let stuck = rows.iter().zip(order.rows()).position(|(row, works)| row.len() < works.len());
        match stuck {
            Some(rank) => Err(Stuck { rank: Rank(rank as u32), work: order.rows()[rank][rows[rank].len()] }),
            None => {
                let wait_send = vec![0; rows.len()];
                Ok(Self { extent: order.extent(), rows, flights: Vec::new(), wait_send })
            }
        }
    }
}

struct Play<'a> {
    order: &'a Order,
    costs: &'a Costs,
    /// By direction, consuming stage and microbatch: when the message is there, and the number of the computation that
    /// made it.
    made: [Vec<Made>; 2],
    /// By kind, stage and microbatch: when the computation is done.
    done: [Vec<Option<u64>>; 4],
    rows: Vec<Vec<Span>>,
    /// By rank: how many of its pairs have begun.
    pairs: Vec<usize>,
}

impl<'a> Play<'a> {
    fn new(order: &'a Order, costs: &'a Costs) -> Self {
        let extent = order.extent();
        assert!(costs.covers(extent.placement), "costs for another number of stages than the order's");
        let n_pairs = extent.placement.n_stages() as usize * extent.microbatches as usize;
        // What no later computation asks for need not be kept.
        let kept = |kept: bool| if kept { n_pairs } else { 0 };
        Self {
            order,
            costs,
            made: [vec![None; n_pairs], vec![None; kept(!extent.forward_only)]],
            done: [kept(!extent.forward_only), 0, kept(!extent.forward_only), 0].map(|len| vec![None; len]),
            rows: order.rows().iter().map(|row| Vec::with_capacity(row.len())).collect(),
            pairs: vec![0; order.rows().len()],
        }
    }

    fn idx(&self, stage: crate::ids::Stage, microbatch: crate::ids::Microbatch) -> usize {
        stage.idx() * self.order.extent().microbatches as usize + microbatch.idx()
    }

    /// Runs a rank's computations until one cannot start; ranks that have got a message are ready again.
    fn advance(&mut self, rank: usize, ready: &mut Vec<usize>) {
        let placement = self.order.extent().placement;
        while let Some(&work) = self.order.rows()[rank].get(self.rows[rank].len()) {
            let Some((start, after)) = self.start_of(rank, work) else { break };
            let end = start + self.cost_of(rank, work);
            let index = self.rows[rank].len() as u32;
            self.rows[rank].push(Span { work, start, end, after });
            let at = self.idx(work.stage, work.microbatch);
            if let Some(done) = self.done[work.kind as usize].get_mut(at) {
                *done = Some(end);
            }
            let Some(message) = output_of(work, placement) else { continue };
            let consumer = placement.rank_of(message.stage).idx();
            let delay = if consumer == rank { 0 } else { self.costs.link(message).delay() };
            let at = self.idx(message.stage, message.microbatch);
            self.made[message.direction as usize][at] = Some((end + delay, index));
            if consumer != rank {
                ready.push(consumer);
            }
        }
    }

    /// When a computation can start, and what held it up; `None` when something it needs is not there yet.
    fn start_of(&self, rank: usize, work: Work) -> Option<(u64, After)> {
        let placement = self.order.extent().placement;
        let free = self.rows[rank].last().map_or(0, |span| span.end);
        let held_by_own = if self.rows[rank].is_empty() { After::Nothing } else { After::Previous };
        let state = match state_from(work.kind) {
            None => 0,
            Some(kind) => self.done[kind as usize][self.idx(work.stage, work.microbatch)]?,
        };
        let free = free.max(state);
        let Some(message) = input_of(work, placement) else { return Some((free, held_by_own)) };
        let (there, index) = self.made[message.direction as usize][self.idx(message.stage, message.microbatch)]?;
        if there <= free {
            return Some((free, held_by_own));
        }
        Some((there, After::Other { rank: placement.rank_of(message.made_by()), index }))
    }

    fn cost_of(&mut self, rank: usize, work: Work) -> u64 {
        let index = self.rows[rank].len();
        let pairs = self.order.pairs(Rank(rank as u32));
        let works = &self.order.rows()[rank];
        let begun = self.pairs[rank];
        if pairs.get(begun).is_some_and(|start| *start as usize == index) {
            self.pairs[rank] += 1;
            return self.costs.of_pair(work, works[index + 1])[0];
        }
        match begun.checked_sub(1).map(|last| pairs[last] as usize) {
            Some(start) if start + 1 == index => self.costs.of_pair(works[start], work)[1],
            _ => self.costs.of(work),
        }
    }
}
