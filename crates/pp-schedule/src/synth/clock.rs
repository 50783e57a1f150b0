//! When the computations of words run, kept up to date as they change.
//!
//! A change of one rank's word at some position cannot touch what starts, on any rank, before that position's turn comes.
//! So only what follows is played again; and it is given up as soon as a rank could not end in time even without waiting
//! once more. What a rejected change overwrote is copied back.

use super::shape::{FORWARD, INPUT, Letter, Shape, WEIGHT, Words};

/// What is known of every computation of words.
#[derive(Clone)]
struct Times {
    /// When a rank's computations start, rank after rank.
    start: Vec<u64>,
    /// By kind: when (stage, microbatch) is done.
    done: [Vec<u64>; 2],
    /// By kind: where (stage, microbatch) stands on its rank.
    place: [Vec<u32>; 2],
    /// How many of each letter stand before a position, rank after rank.
    before: Vec<[u32; 6]>,
    /// When a rank's last computation ends.
    end: Vec<u64>,
}

/// Words and their times.
pub(super) struct Clock {
    shape: Shape,
    /// Of the words as they were accepted last.
    kept: Times,
    /// Of the words that are being tried.
    tried: Times,
    /// Where the play of the tried words began on each rank.
    from: Vec<usize>,
    /// How far it came.
    at: Vec<usize>,
    free: Vec<u64>,
    /// Work that a rank has yet to do.
    left: Vec<u64>,
    counts: Vec<[u32; 6]>,
    todo: Vec<usize>,
}

impl Clock {
    pub(super) fn new(shape: Shape) -> Self {
        let (n, len, cells) = (shape.n_ranks, shape.row_len(), shape.n_stages * shape.m);
        let times = Times {
            start: vec![0; n * len],
            done: [vec![0; cells], vec![0; cells]],
            place: [vec![0; cells], vec![0; cells]],
            before: vec![[0; 6]; n * len],
            end: vec![0; n],
        };
        Self {
            shape,
            kept: times.clone(),
            tried: times,
            from: vec![0; n],
            at: vec![0; n],
            free: vec![0; n],
            left: vec![0; n],
            counts: vec![[0; 6]; n],
            todo: Vec::with_capacity(4 * n),
        }
    }

    /// Plays words from their start and keeps the times; the length, or nothing if they never end or end after `latest`.
    pub(super) fn set(&mut self, words: &Words, latest: u64) -> Option<u64> {
        self.from.fill(0);
        self.free.fill(0);
        self.counts.fill([0; 6]);
        let length = self.play(words, latest)?;
        self.keep();
        Some(length)
    }

    /// Plays words that differ from the kept ones only on `rank`, from position `at` on. After this come [`Self::keep`] or
    /// [`Self::forget`].
    pub(super) fn change(&mut self, words: &Words, rank: usize, at: usize, latest: u64) -> Option<u64> {
        let since = self.end_before(rank, at);
        for other in 0..self.shape.n_ranks {
            let row = self.row(other);
            let from =
                if other == rank { at } else { self.kept.start[row.clone()].partition_point(|&start| start < since) };
            self.from[other] = from;
            self.free[other] = self.end_before(other, from);
            self.counts[other] = match self.kept.before[row].get(from) {
                Some(&counts) => counts,
                None => [self.shape.m as u32; 6],
            };
        }
        self.play(words, latest)
    }

    fn row(&self, rank: usize) -> std::ops::Range<usize> {
        let len = self.shape.row_len();
        rank * len..(rank + 1) * len
    }

    /// When the computation before a position of the kept words ends.
    fn end_before(&self, rank: usize, at: usize) -> u64 {
        let row = self.row(rank);
        if at == row.len() {
            return self.kept.end[rank];
        }
        if at == 0 {
            return 0;
        }
        let (now, then) = (self.kept.before[row.start + at], self.kept.before[row.start + at - 1]);
        let letter = (0..6).find(|&letter| now[letter] != then[letter]).unwrap_or(0);
        self.kept.start[row.start + at - 1] + self.shape.cost[self.shape.kind(letter)]
    }

    fn play(&mut self, words: &Words, latest: u64) -> Option<u64> {
        let shape = self.shape;
        let len = shape.row_len();
        self.todo.clear();
        for rank in (0..shape.n_ranks).rev() {
            self.at[rank] = self.from[rank];
            self.left[rank] = shape.work_left(&self.counts[rank]);
            if self.from[rank] < len {
                self.todo.push(rank);
            } else {
                self.tried.end[rank] = self.free[rank];
            }
        }
        while let Some(rank) = self.todo.pop() {
            let word = &words[rank];
            let mut at = self.at[rank];
            let mut free = self.free[rank];
            let mut left = self.left[rank];
            while at < len {
                let letter = word[at] as usize;
                let (kind, chunk) = (shape.kind(letter), shape.chunk(letter));
                let stage = shape.stage_of(rank, chunk);
                let microbatch = self.counts[rank][letter];
                let Some(ready) = self.ready(kind, stage, microbatch) else { break };
                let start = ready.max(free);
                if start + left > latest {
                    self.at[rank] = at;
                    return None;
                }
                free = start + shape.cost[kind];
                left -= shape.cost[kind];
                self.tried.start[rank * len + at] = start;
                self.tried.before[rank * len + at] = self.counts[rank];
                self.counts[rank][letter] += 1;
                at += 1;
                if kind == WEIGHT {
                    continue;
                }
                let cell = stage * shape.m + microbatch as usize;
                self.tried.done[kind][cell] = free;
                self.tried.place[kind][cell] = (at - 1) as u32;
                let next = if kind == FORWARD { stage + 1 } else { stage.wrapping_sub(1) };
                if next < shape.n_stages {
                    let consumer = shape.rank_of(next);
                    if consumer != rank && self.todo.last() != Some(&consumer) {
                        self.todo.push(consumer);
                    }
                }
            }
            self.at[rank] = at;
            self.free[rank] = free;
            self.left[rank] = left;
            self.tried.end[rank] = free;
        }
        if self.at.iter().all(|&at| at == len) { self.free.iter().copied().max() } else { None }
    }

    /// When what a computation needs is there, if that is known.
    #[inline]
    fn ready(&self, kind: usize, stage: usize, microbatch: u32) -> Option<u64> {
        let shape = &self.shape;
        match kind {
            FORWARD if stage == 0 => Some(0),
            FORWARD => Some(self.done(FORWARD, stage - 1, microbatch)? + shape.hop(stage - 1, stage)),
            INPUT if stage + 1 == shape.n_stages => self.done(FORWARD, stage, microbatch),
            INPUT => {
                let gradient = self.done(INPUT, stage + 1, microbatch)? + shape.hop(stage + 1, stage);
                Some(gradient.max(self.done(FORWARD, stage, microbatch)?))
            }
            _ => self.done(INPUT, stage, microbatch),
        }
    }

    #[inline]
    fn done(&self, kind: usize, stage: usize, microbatch: u32) -> Option<u64> {
        let shape = &self.shape;
        let chunk = usize::from(stage >= shape.n_ranks);
        let known = self.counts[shape.rank_of(stage)][kind * shape.n_chunks + chunk] > microbatch;
        known.then(|| self.tried.done[kind][stage * shape.m + microbatch as usize])
    }

    /// The tried words are the kept ones from now on.
    pub(super) fn keep(&mut self) {
        copy(&self.shape, &self.from, &self.at, &self.counts, &self.tried, &mut self.kept);
    }

    /// Forgets the tried words.
    pub(super) fn forget(&mut self) {
        copy(&self.shape, &self.from, &self.at, &self.counts, &self.kept, &mut self.tried);
    }

    /// One of the ranks that end last.
    pub(super) fn last_rank(&self, mut coin: impl FnMut() -> bool) -> usize {
        let length = self.length();
        let mut last = (0..self.shape.n_ranks).filter(|&rank| self.kept.end[rank] == length);
        let first = last.next().unwrap_or(0);
        last.fold(first, |chosen, other| if coin() { other } else { chosen })
    }

    /// A chain of kept computations that lets none start earlier, from a rank's last to the first, as (rank, position).
    /// `coin` says which way to go where there are two.
    pub(super) fn critical_path(
        &self,
        words: &Words,
        mut rank: usize,
        path: &mut Vec<(usize, usize)>,
        mut coin: impl FnMut() -> bool,
    ) {
        path.clear();
        let len = self.shape.row_len();
        let mut at = len - 1;
        loop {
            path.push((rank, at));
            let start = self.kept.start[rank * len + at];
            if start == 0 {
                return;
            }
            let by_rank = self.end_before(rank, at) == start;
            let needed = self.needed(words[rank][at], rank, at, start);
            match needed {
                Some(needed) if !by_rank || coin() => (rank, at) = needed,
                _ if at > 0 => at -= 1,
                _ => return,
            }
        }
    }

    /// Where the computation stands that a kept one had to wait for until its start.
    fn needed(&self, letter: Letter, rank: usize, at: usize, start: u64) -> Option<(usize, usize)> {
        let shape = &self.shape;
        let (kind, chunk) = (shape.kind(letter as usize), shape.chunk(letter as usize));
        let stage = shape.stage_of(rank, chunk);
        let microbatch = self.kept.before[rank * shape.row_len() + at][letter as usize] as usize;
        let found = |kind: usize, of: usize| {
            let cell = of * shape.m + microbatch;
            let there = self.kept.done[kind][cell] + shape.hop(of, stage);
            (there == start).then(|| (shape.rank_of(of), self.kept.place[kind][cell] as usize))
        };
        match kind {
            FORWARD if stage == 0 => None,
            FORWARD => found(FORWARD, stage - 1),
            INPUT if stage + 1 == shape.n_stages => found(FORWARD, stage),
            INPUT => found(INPUT, stage + 1).or_else(|| found(FORWARD, stage)),
            _ => found(INPUT, stage),
        }
    }

    /// How long the kept words are.
    pub(super) fn length(&self) -> u64 {
        self.kept.end.iter().copied().max().unwrap_or(0)
    }

    /// The longest that a rank takes from its own start to its own end, and which rank it is; of the words played last.
    pub(super) fn longest_stage(&self) -> (u64, usize) {
        let len = self.shape.row_len();
        let stage = |rank: usize| (self.tried.end[rank] - self.tried.start[rank * len], rank);
        (0..self.shape.n_ranks).map(stage).max().unwrap_or((0, 0))
    }

    /// When a rank's computations start.
    pub(super) fn starts(&self, rank: usize) -> &[u64] {
        &self.kept.start[self.row(rank)]
    }
}

/// Copies what a play has written: on each rank a stretch of positions, and of each letter a stretch of microbatches.
fn copy(shape: &Shape, from: &[usize], at: &[usize], counts: &[[u32; 6]], source: &Times, target: &mut Times) {
    let len = shape.row_len();
    for rank in 0..shape.n_ranks {
        target.end[rank] = source.end[rank];
        if from[rank] == at[rank] {
            continue;
        }
        let stretch = rank * len + from[rank]..rank * len + at[rank];
        let first = source.before[stretch.start];
        target.start[stretch.clone()].copy_from_slice(&source.start[stretch.clone()]);
        target.before[stretch.clone()].copy_from_slice(&source.before[stretch]);
        for kind in [FORWARD, INPUT] {
            for chunk in 0..shape.n_chunks {
                let letter = kind * shape.n_chunks + chunk;
                let stage = shape.stage_of(rank, chunk);
                let cells = stage * shape.m + first[letter] as usize..stage * shape.m + counts[rank][letter] as usize;
                target.done[kind][cells.clone()].copy_from_slice(&source.done[kind][cells.clone()]);
                target.place[kind][cells.clone()].copy_from_slice(&source.place[kind][cells]);
            }
        }
    }
}
