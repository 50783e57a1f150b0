//! Orders made better by small moves: local search along critical paths.
//!
//! A computation on a critical path is moved some places forwards or backwards in its rank's word. What stays within the
//! limit is played, and taken if it is no longer than the best so far; in every other phase also if it is a little longer,
//! by less and less (record-to-record travel, Dueck 1993). Equal lengths are taken, so that the search wanders over the
//! many orders of one length, and longer ones now and then, because where memory is tight several moves have to be made
//! before one pays.

use super::clock::Clock;
use super::random::Sequence;
use super::shape::{Letter, NEVER, Shape, Words, fits};

/// Moves from one phase to the next.
const PHASE: u64 = 2000;
/// Phases after which a search that has wandered off starts again from its best words.
const PATIENCE: u64 = 8;
/// Moves tried along a critical path before another is looked for.
const ALONG: u32 = 40;
/// Farthest move, in microbatches of a rank's work.
const REACH: usize = 3;

/// Words and how long they are.
#[derive(Clone)]
pub(super) struct Found {
    /// From the start of the first rank to the end of the last.
    pub(super) length: u64,
    /// The longest that a rank takes from its own start to its own end.
    pub(super) stage: u64,
    pub(super) words: Words,
}

impl Found {
    /// The shorter is the better; of those as long, the one whose longest stage is the shorter.
    pub(super) fn times(&self) -> (u64, u64) {
        (self.length, self.stage)
    }
}

/// Improves words by at most `moves` moves, or until they are as short as `target`; also says how many moves were tried.
pub(super) fn climb(shape: &Shape, found: Found, target: u64, moves: u64, seed: u64) -> (Found, u64) {
    Climber::new(shape, found, seed, Aim::Length).run(target, moves)
}

/// The same for the longest stage, without becoming longer.
pub(super) fn polish(shape: &Shape, found: Found, target: u64, moves: u64, seed: u64) -> (Found, u64) {
    let aim = Aim::Stage { latest: found.length };
    Climber::new(shape, found, seed, aim).run(target, moves)
}
/// What is made shorter.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Aim {
    Length,
    /// The longest stage, while the length is at most `latest`.
    Stage {
        latest: u64,
    },
}

struct Climber<'a> {
    shape: &'a Shape,
    clock: Clock,
    chance: Sequence,
    words: Words,
    aim: Aim,
    best: Found,
    /// What is aimed at, of the words and of the best.
    now: u64,
    least: u64,
    /// A critical path of the words, and how many moves were tried along it.
    path: Vec<(usize, usize)>,
    along: u32,
    /// How much longer than the best the first move of a phase may make the words.
    slack: u64,
}

impl<'a> Climber<'a> {
    fn new(shape: &'a Shape, found: Found, seed: u64, aim: Aim) -> Self {
        let mut climber = Self {
            shape,
            clock: Clock::new(*shape),
            chance: Sequence::new(seed),
            words: Words::new(),
            aim,
            least: if aim == Aim::Length { found.length } else { found.stage },
            now: 0,
            best: found,
            path: Vec::new(),
            along: ALONG,
            slack: shape.cost.into_iter().max().unwrap_or(0) + shape.latency,
        };
        climber.start_again();
        climber
    }

    fn run(mut self, target: u64, moves: u64) -> (Found, u64) {
        let mut tried = 0;
        while self.least > target && tried < moves {
            tried += 1;
            self.step(tried);
            if tried % (PHASE * PATIENCE) == 0 {
                self.start_again();
            }
        }
        (self.best, tried)
    }

    fn start_again(&mut self) {
        self.words.clone_from(&self.best.words);
        self.clock.set(&self.words, NEVER);
        self.now = self.least;
        self.along = ALONG;
    }

    fn step(&mut self, tried: u64) {
        if self.along >= ALONG {
            let Self { clock, words, path, chance, along, .. } = self;
            let rank =
                if self.aim == Aim::Length { clock.last_rank(|| chance.coin()) } else { clock.longest_stage().1 };
            clock.critical_path(words, rank, path, || chance.coin());
            *along = 0;
        }
        self.along += 1;
        let Some(shift) = self.pick() else { return };
        shift.apply(&mut self.words[shift.rank]);
        if fits(self.shape, &self.words[shift.rank]) {
            let relaxed = (tried / PHASE) % 2 == 1;
            let slack = if relaxed { self.slack * (PHASE - tried % PHASE) / PHASE } else { 0 };
            if self.try_on(shift, self.least + slack) {
                return;
            }
            self.clock.forget();
        }
        shift.back().apply(&mut self.words[shift.rank]);
    }

    /// Plays the words with a shift, and keeps them if what is aimed at is at most `most`.
    fn try_on(&mut self, shift: Shift, most: u64) -> bool {
        let latest = match self.aim {
            Aim::Length => most,
            Aim::Stage { latest } => latest,
        };
        let first = shift.from.min(shift.to);
        let Some(length) = self.clock.change(&self.words, shift.rank, first, latest) else { return false };
        let (stage, _) = self.clock.longest_stage();
        let aimed = if self.aim == Aim::Length { length } else { stage };
        if aimed > most {
            return false;
        }
        self.clock.keep();
        if aimed != self.now {
            self.now = aimed;
            self.along = ALONG;
        }
        if aimed < self.least {
            self.least = aimed;
            self.best = Found { length, stage, words: self.words.clone() };
        }
        true
    }

    /// A computation of the path and where it goes; short ways are likelier.
    fn pick(&mut self) -> Option<Shift> {
        let (rank, from) = self.path[self.chance.below(self.path.len())];
        let reach = REACH * self.shape.n_letters();
        let way = 1 + self.chance.below(reach).min(self.chance.below(reach));
        let to = if self.chance.coin() { from.checked_sub(way)? } else { from + way };
        let word = &self.words[rank];
        (word.get(to)? != &word[from]).then_some(Shift { rank, from, to })
    }
}

/// A computation goes from one position of a word to another.
#[derive(Clone, Copy)]
struct Shift {
    rank: usize,
    from: usize,
    to: usize,
}

impl Shift {
    fn apply(self, word: &mut [Letter]) {
        if self.to < self.from {
            word[self.to..=self.from].rotate_right(1);
        } else {
            word[self.from..=self.to].rotate_left(1);
        }
    }

    fn back(self) -> Self {
        Self { from: self.to, to: self.from, ..self }
    }
}
