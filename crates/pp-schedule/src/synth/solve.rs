//! The search as a whole: seeds from policies, few microbatches first, ranks far apart first, then climbs.

use super::bound::{Bounds, bounds};
use super::climb::{Found, climb, polish};
use super::clock::Clock;
use super::grow::grow;
use super::play::Player;
use super::policy::{Pattern, plain};
use super::problem::Budget;
use super::shape::{NEVER, Shape, Words, peaks};
use super::solution::Tried;

/// A schedule is searched with at most so many microbatches per rank before it is grown to all.
const SMALL: usize = 2;
/// What messages take at least, in percent of a forward, in the climbs that come first.
///
/// Where latency is small beside the work, an order that loses a little in every microbatch looks as good as one that
/// loses nothing. With ranks far apart it does not; then they are moved together step by step.
const FAR: [u64; 3] = [20, 10, 5];
/// Of ten moves, how many the climbs with ranks far apart get, and how many those with few microbatches.
const FAR_SHARE: u64 = 3;
const SMALL_SHARE: u64 = 3;
/// Seeds that are climbed from; then the best of what they gave is climbed from once more.
const SEEDS: usize = 3;
/// With one chunk a policy alone has been as short as any climb wherever both were tried, so climbs get a tenth.
const ONE_CHUNK: u64 = 10;
/// With two, the longest stage is mostly given by the length, so polishing gets a third.
const TWO_CHUNKS: u64 = 3;

/// One run of the search.
pub(super) struct Solver {
    budget: Budget,
    pub(super) tried: Tried,
}

impl Solver {
    pub(super) fn new(budget: Budget) -> Self {
        Self { budget, tried: Tried::default() }
    }

    /// The best order found, and lower bounds.
    pub(super) fn solve(&mut self, shape: &Shape) -> (Found, Bounds) {
        let bounds = bounds(shape);
        let Budget { moves, polish: polishing, .. } = self.budget;
        let (moves, polishing) =
            if shape.n_chunks == 1 { (moves / ONE_CHUNK, polishing) } else { (moves, polishing / TWO_CHUNKS) };
        let found = self.search(shape, bounds, moves);
        let (found, tried) = polish(shape, found, bounds.stage, polishing, self.tried.moves);
        self.tried.moves += tried;
        (self.save(shape, found), bounds)
    }

    fn search(&mut self, shape: &Shape, bounds: Bounds, moves: u64) -> Found {
        let bound = bounds.length;
        let mut seeds = self.seeds(shape, bounds);
        let reached = seeds.iter().any(|seed| seed.length <= bound);
        if moves == 0 || reached {
            return best(seeds);
        }
        let small = shape.with_microbatches(shape.m.min(SMALL * shape.n_ranks));
        let (far, small_share) = (moves * FAR_SHARE / 10, moves * SMALL_SHARE / 10);
        let approach = self.approach(&small, far);
        if small.m == shape.m {
            seeds.extend(approach);
            return self.refine(shape, bound, seeds, moves - far);
        }
        let grown = |found: &Found| grow(&small, &found.words, shape);
        seeds.extend(approach.iter().filter_map(grown));
        let small_bounds = super::bound::bounds(&small);
        let mut small_seeds = self.seeds(&small, small_bounds);
        small_seeds.extend(approach);
        let found = self.refine(&small, small_bounds.length, small_seeds, small_share);
        seeds.extend(grown(&found));
        self.refine(shape, bound, seeds, moves - far - small_share)
    }

    /// What climbs find while the ranks are moved together, one order for each distance.
    fn approach(&mut self, shape: &Shape, moves: u64) -> Vec<Found> {
        let mut orders = Vec::new();
        let mut words: Option<Words> = None;
        for percent in FAR {
            let far = shape.distant(percent);
            let bounds = bounds(&far);
            let seed = match words.take() {
                None => best(self.seeds(&far, bounds)),
                Some(words) => timed(&far, words),
            };
            let found = self.climb(&far, seed, bounds.length, moves / FAR.len() as u64);
            orders.push(timed(shape, found.words.clone()));
            words = Some(found.words);
        }
        orders
    }

    /// Climbs from the best seeds with half of the moves, then from the best of what they gave with the rest.
    fn refine(&mut self, shape: &Shape, bound: u64, mut seeds: Vec<Found>, moves: u64) -> Found {
        seeds.sort_by_key(Found::times);
        seeds.dedup_by(|a, b| a.words == b.words);
        seeds.truncate(SEEDS);
        let share = moves / (2 * seeds.len() as u64);
        let mut found = Vec::new();
        for seed in seeds {
            found.push(self.climb(shape, seed, bound, share));
            if found.last().is_some_and(|found| found.length <= bound) {
                break;
            }
        }
        self.climb(shape, best(found), bound, moves / 2)
    }

    fn climb(&mut self, shape: &Shape, found: Found, bound: u64, moves: u64) -> Found {
        let (found, tried) = climb(shape, found, bound, moves, self.tried.moves);
        self.tried.moves += tried;
        found
    }

    /// The best order of the plain policies and, with two chunks, the best ones of the regular patterns.
    fn seeds(&mut self, shape: &Shape, bounds: Bounds) -> Vec<Found> {
        let mut player = Player::new(*shape);
        let mut plain_best: Option<Found> = None;
        for policy in plain(shape).iter().take(self.budget.plays as usize) {
            self.tried.plays += 1;
            let most = plain_best.as_ref().map_or((NEVER, NEVER), Found::times);
            if let Some(times) = player.play(policy, most) {
                let done = times <= (bounds.length, bounds.stage);
                plain_best = Some(player.found(times));
                if done {
                    break;
                }
            }
        }
        let mut seeds: Vec<Found> = plain_best.into_iter().collect();
        let reached = seeds.iter().any(|seed| seed.length <= bounds.length);
        if shape.n_chunks == 2 && !reached {
            let patterns = Pattern::STARTS.iter();
            seeds.extend(patterns.filter_map(|&start| self.pattern(shape, &mut player, start, bounds.length)));
        }
        seeds
    }

    /// The order of a pattern that is better than all its neighbours, from a pattern on.
    fn pattern(&mut self, shape: &Shape, player: &mut Player, start: Pattern, bound: u64) -> Option<Found> {
        let mut best: Option<Found> = None;
        let mut at = start;
        let mut left = self.budget.plays;
        loop {
            let before = at;
            for next in std::iter::once(before).chain(before.neighbours()) {
                if left == 0 || best.as_ref().is_some_and(|best| best.length <= bound) {
                    return best;
                }
                left -= 1;
                self.tried.plays += 1;
                let most = best.as_ref().map_or((NEVER, NEVER), |best| (best.length, 0));
                if let Some(times) = player.play(&next.policy(shape), most) {
                    best = Some(player.found(times));
                    at = next;
                }
            }
            if at == before {
                return best;
            }
        }
    }

    /// An order no longer that holds less, if plain policies find one under a tighter limit; the limit is found by
    /// bisection.
    fn save(&mut self, shape: &Shape, mut found: Found) -> Found {
        let peak = |found: &Found| peaks(shape, &found.words).into_iter().max().unwrap_or(0);
        let (mut low, mut high) = (2 * shape.n_chunks as u64, peak(&found));
        while low < high {
            let limit = low.midpoint(high);
            let tight = Shape { limit, ..*shape };
            let mut player = Player::new(tight);
            let saved = plain(&tight).iter().take(self.budget.thrift as usize).find_map(|policy| {
                self.tried.plays += 1;
                player.play(policy, (found.length, found.stage + 1))
            });
            match saved {
                Some(times) => {
                    found = player.found(times);
                    high = peak(&found);
                }
                None => low = limit + 1,
            }
        }
        found
    }
}

/// Words with their length under other costs.
fn timed(shape: &Shape, words: Words) -> Found {
    let mut clock = Clock::new(*shape);
    let length = clock.set(&words, NEVER).unwrap_or(NEVER);
    Found { length, stage: clock.longest_stage().0, words }
}

fn best(found: Vec<Found>) -> Found {
    found.into_iter().min_by_key(Found::times).unwrap_or_else(|| unreachable!("plain policies never get stuck"))
}
