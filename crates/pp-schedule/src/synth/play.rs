//! A policy played out: in the order of time, each free rank takes the computation that the policy likes best.
//!
//! This is list scheduling. A forward is taken only if its activation fits the limit and, with two chunks, if every
//! microbatch that is on its way still finds room for its second forward on this rank: so the oldest microbatch can always
//! go on and no play gets stuck.

use super::climb::Found;
use super::policy::{By, Policy};
use super::shape::{FORWARD, INPUT, Letter, NEVER, Shape, WEIGHT, Words};

/// The buffers of a play.
pub(super) struct Player {
    shape: Shape,
    /// When the forward, input gradient of (stage, microbatch) is at the rank which needs it next.
    input_at: [Vec<u64>; 2],
    /// Own forward's end.
    done: Vec<u64>,
    counts: Vec<[u32; 6]>,
    memory: Vec<u64>,
    free: Vec<u64>,
    /// When each rank starts.
    first: Vec<u64>,
    wake: Vec<u64>,
    last: Vec<usize>,
    words: Words,
}

impl Player {
    pub(super) fn new(shape: Shape) -> Self {
        let cells = shape.n_stages * shape.m;
        let n = shape.n_ranks;
        Self {
            shape,
            input_at: [vec![NEVER; cells], vec![NEVER; cells]],
            done: vec![NEVER; cells],
            counts: vec![[0; 6]; n],
            memory: vec![0; n],
            free: vec![0; n],
            first: vec![0; n],
            wake: vec![0; n],
            last: vec![INPUT; n],
            words: vec![Vec::with_capacity(shape.row_len()); n],
        }
    }

    fn reset(&mut self) {
        let m = self.shape.m;
        for at in &mut self.input_at {
            at.fill(NEVER);
        }
        self.input_at[FORWARD][..m].fill(0);
        self.done.fill(NEVER);
        self.counts.fill([0; 6]);
        self.memory.fill(0);
        self.free.fill(0);
        self.wake.fill(NEVER);
        self.wake[0] = 0;
        self.last.fill(INPUT);
        self.words.iter_mut().for_each(Vec::clear);
    }

    /// Plays a policy out: the length and the longest stage, if the pair is less than `best`.
    pub(super) fn play(&mut self, policy: &Policy, best: (u64, u64)) -> Option<(u64, u64)> {
        self.reset();
        let total = self.shape.row_len() * self.shape.n_ranks;
        let mut length = 0;
        let mut played = 0;
        while played < total {
            let rank = (0..self.shape.n_ranks).min_by_key(|&rank| self.wake[rank])?;
            let now = self.wake[rank];
            if now == NEVER {
                return None;
            }
            match self.choose(policy, rank, now) {
                Choice::Take(letter) => {
                    let end = self.take(rank, letter, now);
                    length = length.max(end);
                    if end + self.shape.work_left(&self.counts[rank]) > best.0 {
                        return None;
                    }
                    played += 1;
                }
                Choice::Wait(until) => self.wake[rank] = until,
            }
        }
        let times = (length, self.longest_stage());
        (times < best).then_some(times)
    }

    /// The order that was played last.
    pub(super) fn found(&self, (length, stage): (u64, u64)) -> Found {
        Found { length, stage, words: self.words.clone() }
    }

    /// The longest that a rank took from its own start to its own end in the last play.
    fn longest_stage(&self) -> u64 {
        self.free.iter().zip(&self.first).map(|(end, first)| end - first).max().unwrap_or(0)
    }

    fn admits(&self, policy: &Policy, rank: usize, chunk: usize) -> bool {
        let n_chunks = self.shape.n_chunks;
        let counts = &self.counts[rank];
        let stage = self.shape.stage_of(rank, chunk);
        if counts[chunk] - counts[INPUT * n_chunks + chunk] >= policy.caps[stage] {
            return false;
        }
        if self.memory[rank] + 2 > self.shape.limit {
            return false;
        }
        n_chunks == 1 || chunk == 1 || u64::from(2 * (counts[0] + 1 - counts[1])) + 2 <= self.shape.limit
    }

    #[inline]
    fn choose(&self, policy: &Policy, rank: usize, now: u64) -> Choice {
        let Shape { n_chunks, m, .. } = self.shape;
        let strict = matches!(&policy.by, By::Due(due) if due.strict);
        // The best liked of those that may be taken: how much, which, and when it can start.
        let mut best = (u64::MAX, 0, NEVER);
        let mut next = NEVER;
        for letter in 0..2 * n_chunks {
            let (kind, chunk) = (self.shape.kind(letter), self.shape.chunk(letter));
            let microbatch = self.counts[rank][letter] as usize;
            if microbatch == m || (kind == FORWARD && !self.admits(policy, rank, chunk)) {
                continue;
            }
            let stage = self.shape.stage_of(rank, chunk);
            let at = self.ready(kind, stage, microbatch);
            next = next.min(at);
            if at > now && !strict {
                continue;
            }
            let liking = match &policy.by {
                By::Letter(likings) => u64::from(likings[letter]),
                By::Age(likings) => (microbatch as u64) << 8 | u64::from(likings[letter]),
                By::Turn(likings) => u64::from(kind == self.last[rank]) << 8 | u64::from(likings[letter]),
                By::Due(due) => due.first[kind][stage] + microbatch as u64 * due.interval,
            };
            if liking < best.0 {
                best = (liking, letter, at);
            }
        }
        if best.2 <= now {
            return Choice::Take(best.1);
        }
        let next = if strict { best.2 } else { next };
        match self.weight(rank) {
            Some(letter) if next > now.saturating_add(policy.patience) => Choice::Take(letter),
            _ => Choice::Wait(next),
        }
    }

    /// When a computation can start at the earliest, as far as that is known.
    #[inline]
    fn ready(&self, kind: usize, stage: usize, microbatch: usize) -> u64 {
        let cell = stage * self.shape.m + microbatch;
        let at = self.input_at[kind][cell];
        if kind == INPUT { at.max(self.done[cell]) } else { at }
    }

    /// The weight gradient that has waited the longest, the second chunk's first.
    fn weight(&self, rank: usize) -> Option<usize> {
        let n_chunks = self.shape.n_chunks;
        let counts = &self.counts[rank];
        let waiting = |chunk: &usize| counts[WEIGHT * n_chunks + chunk] < counts[INPUT * n_chunks + chunk];
        let chunk = (0..n_chunks).rev().filter(waiting).min_by_key(|chunk| counts[WEIGHT * n_chunks + chunk])?;
        Some(WEIGHT * n_chunks + chunk)
    }

    #[inline]
    fn take(&mut self, rank: usize, letter: usize, now: u64) -> u64 {
        let shape = self.shape;
        let (kind, chunk) = (shape.kind(letter), shape.chunk(letter));
        let microbatch = self.counts[rank][letter] as usize;
        let stage = shape.stage_of(rank, chunk);
        let end = now + shape.cost[kind];
        if self.words[rank].is_empty() {
            self.first[rank] = now;
        }
        self.counts[rank][letter] += 1;
        self.words[rank].push(letter as Letter);
        self.free[rank] = end;
        self.wake[rank] = end;
        if kind == WEIGHT {
            self.memory[rank] -= 1;
            return end;
        }
        self.last[rank] = kind;
        let to = if kind == FORWARD {
            self.memory[rank] += 2;
            self.done[stage * shape.m + microbatch] = end;
            if stage + 1 == shape.n_stages {
                self.input_at[INPUT][stage * shape.m + microbatch] = end;
                return end;
            }
            stage + 1
        } else {
            self.memory[rank] -= 1;
            if stage == 0 {
                return end;
            }
            stage - 1
        };
        let at = end + shape.hop(stage, to);
        self.input_at[kind][to * shape.m + microbatch] = at;
        let consumer = shape.rank_of(to);
        if consumer != rank {
            // It may be idle, or wait for something later.
            self.wake[consumer] = self.wake[consumer].min(at.max(self.free[consumer]));
        }
        end
    }
}

enum Choice {
    Take(usize),
    Wait(u64),
}
