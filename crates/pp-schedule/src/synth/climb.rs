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

/// Words and their length.
#[derive(Clone)]
pub(super) struct Found {
    pub(super) length: u64,
    pub(super) words: Words,
}

/// Improves words by at most `moves` moves, or until they are as short as `target`; also says how many moves were tried.
pub(super) fn climb(shape: &Shape, found: Found, target: u64, moves: u64, seed: u64) -> (Found, u64) {
    let mut climber = Climber::new(shape, found, seed);
    let mut tried = 0;
    while climber.best.length > target && tried < moves {
        tried += 1;
        climber.step(tried);
        if tried % (PHASE * PATIENCE) == 0 {
            climber.start_again();
        }
    }
    (climber.best, tried)
}

struct Climber<'a> {
    shape: &'a Shape,
    clock: Clock,
    chance: Sequence,
    words: Words,
    best: Found,
    /// A critical path of the words, and how many moves were tried along it.
    path: Vec<(usize, usize)>,
    along: u32,
    /// How much longer than the best the first move of a phase may make the words.
    slack: u64,
}

impl<'a> Climber<'a> {
    fn new(shape: &'a Shape, found: Found, seed: u64) -> Self {
        let mut climber = Self {
            shape,
            clock: Clock::new(*shape),
            chance: Sequence::new(seed),
            words: Words::new(),
            best: found,
            path: Vec::new(),
            along: ALONG,
            slack: shape.cost.into_iter().max().unwrap_or(0) + shape.latency,
        };
        climber.start_again();
        climber
    }

    fn start_again(&mut self) {
        self.words.clone_from(&self.best.words);
        self.clock.set(&self.words, NEVER);
        self.along = ALONG;
    }

    fn step(&mut self, tried: u64) {
        if self.along >= ALONG {
            let Self { clock, words, path, chance, along, .. } = self;
            clock.critical_path(words, path, || chance.coin());
            *along = 0;
        }
        self.along += 1;
        let Some(shift) = self.pick() else { return };
        shift.apply(&mut self.words[shift.rank]);
        if fits(self.shape, &self.words[shift.rank]) {
            let relaxed = (tried / PHASE) % 2 == 1;
            let slack = if relaxed { self.slack * (PHASE - tried % PHASE) / PHASE } else { 0 };
            let before = self.clock.length();
            let first = shift.from.min(shift.to);
            if let Some(length) = self.clock.change(&self.words, shift.rank, first, self.best.length + slack) {
                self.clock.keep();
                self.along = if length == before { self.along } else { ALONG };
                if length < self.best.length {
                    self.best.length = length;
                    self.best.words.clone_from(&self.words);
                }
                return;
            }
            self.clock.forget();
        }
        shift.back().apply(&mut self.words[shift.rank]);
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
