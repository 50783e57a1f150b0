//! More microbatches from few: a schedule is cut open in its middle and some microbatches are repeated there.
//!
//! Long schedules have a beginning, an end and the same between them again and again. So a schedule that was searched
//! with few microbatches is a good one for many, once a stretch is found in it that can be repeated.

use super::climb::Found;
use super::clock::Clock;
use super::shape::{Letter, NEVER, Shape, Words, fits};

/// Most times at which a cut is tried, for each length of the stretch.
pub(super) const CUTS: usize = 48;
/// Longest stretch that is repeated, in microbatches.
pub(super) const STRETCH: usize = 3;

/// The best words for `large`'s microbatches that the words for `small`'s give, and their length.
pub(super) fn grow(small: &Shape, words: &Words, large: &Shape) -> Option<Found> {
    let more = large.m - small.m;
    let mut clock = Clock::new(*small);
    let length = clock.set(words, NEVER)?;
    if more == 0 {
        return Some(Found { length, stage: clock.longest_stage().0, words: words.clone() });
    }
    let mut grown_clock = Clock::new(*large);
    let mut best: Option<Found> = None;
    for stretch in 1..=STRETCH.min(more).min(small.m) {
        let mut last = Vec::new();
        for cut in 1..CUTS as u64 {
            let time = length * cut / CUTS as u64;
            let at: Vec<usize> =
                (0..small.n_ranks).map(|rank| clock.starts(rank).partition_point(|&start| start < time)).collect();
            if at == last {
                continue;
            }
            let opened = words.iter().zip(&at).map(|(word, &at)| open(small, word, at, stretch, more));
            last = at.clone();
            let Some(grown) = opened.collect::<Option<Words>>() else { continue };
            if !grown.iter().all(|word| fits(large, word)) {
                continue;
            }
            let latest = best.as_ref().map_or(NEVER, |best| best.length - 1);
            if let Some(length) = grown_clock.set(&grown, latest) {
                best = Some(Found { length, stage: grown_clock.longest_stage().0, words: grown });
            }
        }
    }
    best
}

/// A word with `more` of each letter, put in at a position in the order in which the next `stretch` of each follow there.
fn open(shape: &Shape, word: &[Letter], at: usize, stretch: usize, more: usize) -> Option<Vec<Letter>> {
    let block = next(shape, &word[at..], stretch)?;
    let rest = if more.is_multiple_of(stretch) { Vec::new() } else { next(shape, &word[at..], more % stretch)? };
    let mut grown = Vec::with_capacity(word.len() + more * shape.n_letters());
    grown.extend_from_slice(&word[..at]);
    for _ in 0..more / stretch {
        grown.extend_from_slice(&block);
    }
    grown.extend_from_slice(&rest);
    grown.extend_from_slice(&word[at..]);
    Some(grown)
}

/// The next `n` of each letter, in their order.
fn next(shape: &Shape, word: &[Letter], n: usize) -> Option<Vec<Letter>> {
    let mut seen = [0; 6];
    let mut found = Vec::with_capacity(n * shape.n_letters());
    for &letter in word {
        if seen[letter as usize] < n {
            seen[letter as usize] += 1;
            found.push(letter);
        }
    }
    (found.len() == n * shape.n_letters()).then_some(found)
}
