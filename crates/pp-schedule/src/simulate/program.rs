//! The clock of actions: a program played out as an executor runs it, with queues, posts and waits.
//!
//! Programs as verified are confluent: what happens first in time never changes what happens. So no clock has to be
//! advanced for all ranks together; each rank runs until it meets a transfer whose end is not known yet, and whoever
//! makes it known wakes it up.

use std::collections::VecDeque;

use super::costs::Costs;
use super::timeline::{After, Flight, Span, Timeline};
use crate::ids::Rank;
use crate::program::{Compute, Program, RankProgram, Role, Step, Transfer};

/// When a message leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Sends {
    /// As soon as it is posted and its channel is free; its receiver may post later. The send is complete when it has
    /// left. So do endpoints that buffer.
    #[default]
    Eager,
    /// Once its receiver has posted too; the send is complete when the message is there. So does NCCL.
    Rendezvous,
}

/// A program that does not run to its end, which no verified program is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("rank {rank} never gets past action {action}: {what}")]
pub struct Unplayable {
    /// A rank that is stuck.
    pub rank: Rank,
    /// The place of the action in its program.
    pub action: usize,
    /// The action.
    pub what: String,
}

impl Timeline {
    /// Plays a verified program out. A rank posts without delay, computes for as long as `costs` says, and waits where
    /// its program waits. On each rank, transfers of one queue go one after the other in the order in which they are
    /// posted (those of one post together); each takes its channel for [`super::Link::transfer`] and is there
    /// [`super::Link::latency`] later.
    ///
    /// # Errors
    /// [`Unplayable`] when it stops, which it does not after [`crate::verify()`].
    ///
    /// # Panics
    /// If the costs do not [cover](Costs::covers) the program's placement.
    pub fn of_program(program: &Program, costs: &Costs, sends: Sends) -> Result<Self, Unplayable> {
        let mut play = Play::new(program, costs, sends);
        while let Some(rank) = play.ready.pop() {
            play.advance(rank);
        }
        play.end()
    }
}

const NEVER: u64 = u64::MAX;
const NOBODY: u32 = u32::MAX;

/// A moment, and the computation that ended just before it: what whoever waits for it waits for.
#[derive(Clone, Copy)]
struct Moment {
    time: u64,
    /// Rank and number of the computation; [`NOBODY`] before the first.
    after: (u32, u32),
}

impl Moment {
    const UNKNOWN: Self = Self { time: NEVER, after: (NOBODY, NOBODY) };
    const ZERO: Self = Self { time: 0, after: (NOBODY, NOBODY) };

    /// The later of the two, this one if they are equal.
    const fn or_later(self, other: Self) -> Self {
        if other.time > self.time { other } else { self }
    }

    const fn plus(self, ticks: u64) -> Self {
        Self { time: self.time + ticks, ..self }
    }
}

/// One side of a message, by its number over all ranks.
#[derive(Clone, Copy)]
struct End {
    posted: Moment,
    /// When the message has left, for an eager send; when it is there, for all others.
    done: Moment,
    /// The other side, once both are posted.
    partner: u32,
    rank: u32,
    /// The queue it stands in, among its rank's, and its post there.
    queue: u32,
    post: u32,
}

/// The transfers of one queue on one rank.
struct Queue {
    id: u32,
    /// Those that are not complete and their posts, oldest first.
    members: VecDeque<(u32, u32)>,
    n_posts: u32,
    /// Transfers of the oldest post that are still to be completed.
    n_left: u32,
    /// When the posts before the oldest were complete.
    free: Moment,
    /// When those of the oldest post were that are.
    free_next: Moment,
}

/// A rank on its way through its program.
struct Run {
    /// The next action.
    action: usize,
    now: Moment,
    wait_send: u64,
    row: Vec<Span>,
    /// The transfer that it waits for.
    waits_for: u32,
    queues: Vec<Queue>,
}

struct Play<'a> {
    program: &'a Program,
    costs: &'a Costs,
    sends: Sends,
    /// By rank: the number of its first transfer.
    base: Vec<u32>,
    ends: Vec<End>,
    /// By channel, sends and receives: those posted whose other side is not, oldest first.
    unmatched: Vec<[VecDeque<u32>; 2]>,
    runs: Vec<Run>,
    flights: Vec<Flight>,
    /// Ranks that can go on.
    ready: Vec<usize>,
}

impl<'a> Play<'a> {
    fn new(program: &'a Program, costs: &'a Costs, sends: Sends) -> Self {
        assert!(costs.covers(program.extent.placement), "costs for another number of stages than the program's");
        let mut base = Vec::with_capacity(program.ranks.len());
        let mut ends = Vec::with_capacity(program.ranks.iter().map(|rank| rank.transfers.len()).sum());
        for (rank, program) in (0..).zip(&program.ranks) {
            base.push(ends.len() as u32);
            let unknown = Moment::UNKNOWN;
            let end = End { posted: unknown, done: unknown, partner: NOBODY, rank, queue: NOBODY, post: NOBODY };
            ends.extend(std::iter::repeat_n(end, program.transfers.len()));
        }
        let run = |rank: &RankProgram| Run {
            action: 0,
            now: Moment::ZERO,
            wait_send: 0,
            row: Vec::with_capacity(rank.computes.len()),
            waits_for: NOBODY,
            queues: Vec::new(),
        };
        Self {
            program,
            costs,
            sends,
            base,
            unmatched: program.channels.iter().map(|_| Default::default()).collect(),
            runs: program.ranks.iter().map(run).collect(),
            flights: Vec::with_capacity(ends.len() / 2),
            ready: (0..program.ranks.len()).rev().collect(),
            ends,
        }
    }

    /// Runs a rank until it waits for what is not known yet.
    fn advance(&mut self, rank: usize) {
        let program = &self.program.ranks[rank];
        while let Some(step) = program.step(self.runs[rank].action) {
            match step {
                Step::Compute(compute) => self.compute(rank, compute),
                Step::Post(first, transfers) => self.post(rank, first, transfers),
                Step::Wait(number, transfer) => {
                    let end = self.base[rank] + number;
                    let done = self.ends[end as usize].done;
                    let run = &mut self.runs[rank];
                    if done.time == NEVER {
                        run.waits_for = end;
                        return;
                    }
                    if transfer.role == Role::Send {
                        run.wait_send += done.time.saturating_sub(run.now.time);
                    }
                    run.now = run.now.or_later(done);
                }
                Step::Free(_) | Step::Mark(_) => {}
            }
            self.runs[rank].action += 1;
        }
    }

    fn compute(&mut self, rank: usize, compute: &Compute) {
        let run = &mut self.runs[rank];
        let index = run.row.len();
        let computes = &self.program.ranks[rank].computes;
        let before = index.checked_sub(1).map(|before| &computes[before]).filter(|before| before.overlaps_next);
        let next = computes.get(index + 1).filter(|_| compute.overlaps_next);
        let cost = match (before, next) {
            (Some(before), _) => self.costs.of_pair(before.work, compute.work)[1],
            (None, Some(next)) => self.costs.of_pair(compute.work, next.work)[0],
            (None, None) => self.costs.of(compute.work),
        };
        let after = match run.now.after {
            (NOBODY, _) => After::Nothing,
            (other, last) if other as usize == rank && last as usize + 1 == index => After::Previous,
            (other, index) => After::Other { rank: Rank(other), index },
        };
        let start = run.now.time;
        run.row.push(Span { work: compute.work, start, end: start + cost, after });
        run.now = Moment { time: start + cost, after: (rank as u32, index as u32) };
    }

    fn post(&mut self, rank: usize, first: u32, transfers: &[Transfer]) {
        let first = self.base[rank] + first;
        for (number, transfer) in (first..).zip(transfers) {
            let queue = self.queue_of(rank, self.program.channels[transfer.channel.idx()].queue);
            let run = &mut self.runs[rank];
            let stands_in = &mut run.queues[queue];
            // The first transfer of a post in a queue begins a post there.
            let begun = stands_in.members.back().is_some_and(|(last, _)| *last >= first);
            stands_in.n_posts += u32::from(!begun);
            let post = stands_in.n_posts;
            if stands_in.members.front().is_none_or(|(_, oldest)| *oldest == post) {
                stands_in.n_left += 1;
            }
            stands_in.members.push_back((number, post));
            let end = &mut self.ends[number as usize];
            (end.posted, end.queue, end.post) = (run.now, queue as u32, post);
            let side = usize::from(transfer.role == Role::Receive);
            let unmatched = &mut self.unmatched[transfer.channel.idx()];
            match unmatched[1 - side].pop_front() {
                None => unmatched[side].push_back(number),
                Some(partner) => {
                    self.ends[number as usize].partner = partner;
                    self.ends[partner as usize].partner = number;
                }
            }
        }
        let mut due: Vec<u32> = (first..first + transfers.len() as u32).rev().collect();
        while let Some(end) = due.pop() {
            self.settle(end, &mut due);
        }
    }

    fn queue_of(&mut self, rank: usize, id: u32) -> usize {
        let queues = &mut self.runs[rank].queues;
        queues.iter().position(|queue| queue.id == id).unwrap_or_else(|| {
            let (free, free_next) = (Moment::ZERO, Moment::ZERO);
            queues.push(Queue { id, members: VecDeque::new(), n_posts: 0, n_left: 0, free, free_next });
            queues.len() - 1
        })
    }

    /// When everything before a transfer in its queue is complete; `None` until then, and once it is itself.
    fn turn_of(&self, number: u32) -> Option<Moment> {
        let end = &self.ends[number as usize];
        let queue = self.runs[end.rank as usize].queues.get(end.queue as usize)?;
        let is_oldest = queue.members.front().is_some_and(|(_, oldest)| *oldest == end.post);
        (is_oldest && end.done.time == NEVER).then_some(queue.free)
    }

    /// Completes a transfer if that can be done by now; what this makes possible goes to `due`.
    fn settle(&mut self, number: u32, due: &mut Vec<u32>) {
        let Some(free) = self.turn_of(number) else { return };
        let transfer = self.transfer(number);
        let link = self.costs.link(transfer.message);
        let &End { posted, partner, .. } = &self.ends[number as usize];
        let mine = posted.or_later(free);
        match (self.sends, transfer.role) {
            (Sends::Eager, Role::Send) => {
                let left = mine.plus(link.transfer);
                self.complete(number, left, left, due);
                if partner != NOBODY {
                    due.push(partner);
                }
            }
            (Sends::Eager, Role::Receive) => {
                if partner == NOBODY || self.ends[partner as usize].done.time == NEVER {
                    return;
                }
                let left = self.ends[partner as usize].done;
                let there = left.plus(link.latency).or_later(mine);
                self.fly(transfer, left.time - link.transfer, there.time);
                self.complete(number, there, there, due);
            }
            (Sends::Rendezvous, _) => {
                let Some(theirs) = (partner != NOBODY).then(|| self.turn_of(partner)).flatten() else { return };
                let theirs = self.ends[partner as usize].posted.or_later(theirs);
                // Of two that are equally late the sender is the one waited for.
                let start = if transfer.role == Role::Send { mine.or_later(theirs) } else { theirs.or_later(mine) };
                let left = start.plus(link.transfer);
                self.fly(transfer, start.time, left.plus(link.latency).time);
                for end in [number, partner] {
                    self.complete(end, left.plus(link.latency), left, due);
                }
            }
        }
    }

    fn fly(&mut self, transfer: &Transfer, start: u64, end: u64) {
        let placement = self.program.extent.placement;
        let message = transfer.message;
        let (source, destination) = (placement.rank_of(message.made_by()), placement.rank_of(message.stage));
        self.flights.push(Flight { message, source, destination, start, end });
    }

    fn transfer(&self, number: u32) -> &'a Transfer {
        let rank = self.ends[number as usize].rank as usize;
        &self.program.ranks[rank].transfers[(number - self.base[rank]) as usize]
    }

    /// Takes a transfer out of its queue, which it leaves free at `left`.
    fn complete(&mut self, number: u32, done: Moment, left: Moment, due: &mut Vec<u32>) {
        let end = &mut self.ends[number as usize];
        end.done = done;
        let run = &mut self.runs[end.rank as usize];
        if run.waits_for == number {
            run.waits_for = NOBODY;
            self.ready.push(end.rank as usize);
        }
        let queue = &mut run.queues[end.queue as usize];
        queue.free_next = queue.free_next.or_later(left);
        queue.n_left -= 1;
        if queue.n_left > 0 {
            return;
        }
        queue.free = queue.free_next;
        let oldest = end.post;
        while queue.members.front().is_some_and(|(_, post)| *post == oldest) {
            queue.members.pop_front();
        }
        if let Some(&(_, next)) = queue.members.front() {
            for (member, _) in queue.members.iter().take_while(|(_, post)| *post == next) {
                queue.n_left += 1;
                due.push(*member);
            }
        }
    }

    fn end(self) -> Result<Timeline, Unplayable> {
        for (rank, run) in (0..).map(Rank).zip(&self.runs) {
            if let Some(step) = self.program.ranks[rank.idx()].step(run.action) {
                return Err(Unplayable { rank, action: run.action, what: step.to_string() });
            }
        }
        let wait_send = self.runs.iter().map(|run| run.wait_send).collect();
        let rows = self.runs.into_iter().map(|run| run.row).collect();
        Ok(Timeline { extent: self.program.extent, rows, flights: self.flights, wait_send })
    }
}
