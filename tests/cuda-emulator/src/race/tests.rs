//! The tracker alone, without a driver: against an oracle, and that little is kept.

use std::ops::Range;
use std::sync::{Arc, LazyLock};

use super::*;
use crate::clock::{Actor, Clock};
use crate::job::Kind;
use crate::place::Place;

/// A piece of an actor, after all that a clock has.
fn piece(actor: u64, number: u64, before: &Clock) -> Arc<Piece> {
    // One for all: taking them is what takes longest.
    static PLACE: LazyLock<Place> = LazyLock::new(Place::here);
    let actor = Actor { process: 1, number: actor };
    let mut known = before.clone();
    known.raise(actor, number);
    let (what, place) = (String::new(), PLACE.clone());
    Arc::new(Piece { actor, number, what, place, known, open: Clock::default(), learns: false })
}

/// A seeded random number below `n`.
fn random(state: &mut u64, n: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % n
}

const N_BYTES: usize = 6;

/// A touch, for the oracle.
struct Known {
    touch: Arc<Touch>,
    /// The piece's place in the program, and which pieces are before it.
    piece: usize,
    before: Vec<bool>,
}

fn races(earlier: &Known, later: &Known) -> bool {
    let (a, b): (&Range<usize>, &Range<usize>) = (&earlier.touch.range, &later.touch.range);
    let overlap = a.start < b.end && b.start < a.end;
    let writes = earlier.touch.kind == Kind::Write || later.touch.kind == Kind::Write;
    overlap && writes && earlier.piece != later.piece && !later.before[earlier.piece]
}

/// Runs a random program of four actors with joins between them. After every race it goes on: each touch must be reported if
/// and only if it races with an earlier one, however much was dropped before.
fn check(seed: u64) -> usize {
    let mut state = seed;
    let mut tracker = Tracker::default();
    let mut tails = vec![(Clock::default(), Vec::<bool>::new(), 0_u64); 4];
    let mut known: Vec<Known> = Vec::new();
    let mut unsettled: Vec<Arc<Touch>> = Vec::new();
    let mut n_races = 0;
    for nth in 0..60 {
        let actor = random(&mut state, 4) as usize;
        if random(&mut state, 2) == 0 {
            // What another has done by now is before what this one does next.
            let (clock, before, _) = tails[random(&mut state, 4) as usize].clone();
            tails[actor].0.join(&clock);
            tails[actor].1.resize(nth, false);
            before.iter().enumerate().for_each(|(at, &is)| tails[actor].1[at] |= is);
        }
        let (clock, before, number) = &mut tails[actor];
        *number += 1;
        let piece = piece(actor as u64, *number, clock);
        *clock = piece.known.clone();
        before.resize(nth, false);
        for _ in 0..random(&mut state, 3) {
            let start = random(&mut state, N_BYTES as u64) as usize;
            let end = start + 1 + random(&mut state, (N_BYTES - start) as u64) as usize;
            let kind = if random(&mut state, 3) == 0 { Kind::Write } else { Kind::Read };
            let (touch, found) = tracker.add(0, &piece, kind, start..end);
            let now = Known { touch, piece: nth, before: before.clone() };
            let expected = known.iter().any(|earlier| races(earlier, &now));
            assert_eq!(!found.is_empty(), expected, "seed {seed}, piece {nth}, {kind:?} {start}..{end}");
            for Race { first, second } in &found {
                assert!(Arc::ptr_eq(second, &now.touch));
                let first = known.iter().find(|earlier| Arc::ptr_eq(&earlier.touch, first)).unwrap();
                assert!(races(first, &now), "seed {seed}, piece {nth}: not with that one");
            }
            n_races += usize::from(expected);
            unsettled.push(Arc::clone(&now.touch));
            known.push(now);
        }
        before.push(true);
        // Work is done some time after it was queued.
        while unsettled.len() > random(&mut state, 8) as usize {
            let touch = unsettled.remove(0);
            assert!(tracker.settle(&touch, &touch.piece.known.clone()).is_empty(), "all was known before");
        }
    }
    n_races
}

#[test]
fn each_touch_is_reported_if_and_only_if_it_races_with_an_earlier_one() {
    let n_races: usize = (0..600).map(check).sum();
    assert!((4_000..32_000).contains(&n_races), "{n_races}");
}

#[test]
fn little_is_kept_however_long_it_goes_on() {
    let mut tracker = Tracker::default();
    let mut clock = Clock::default();
    let mut most = 0;
    for nth in 1..2000 {
        for (actor, kind) in [(0, Kind::Write), (1, Kind::Read), (2, Kind::Read)] {
            let piece = piece(actor, nth, &clock);
            clock.join(&piece.known);
            let range = (nth as usize % 7)..(10 + nth as usize % 5);
            let (touch, found) = tracker.add(0, &piece, kind, range);
            assert!(found.is_empty());
            tracker.settle(&touch, &clock);
        }
        most = most.max(tracker.kept(0));
    }
    assert!(most < 60, "{most}");
}
