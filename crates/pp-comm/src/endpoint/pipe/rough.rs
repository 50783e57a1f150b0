//! Links made rough on purpose: what a busy network may do to a stream, and more. Nothing of it may change a bit.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

/// Has every link stall at random and move bytes in pieces of random size, down to one. For tests of whole runs: the results
/// must be the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RoughLinks {
    /// What the randomness follows from. Each end of each link draws its own from it, the same in every run.
    pub seed: u64,
}

/// The longest stall, in microseconds.
const LONGEST_STALL: u64 = 300;

/// One in so many reads and writes stalls.
const STALLS: u64 = 16;

/// The largest piece is below two to this power.
const MAX_BITS: u64 = 21;

/// The roughness of one end of a link.
#[derive(Debug)]
pub(super) struct Rough {
    seed: u64,
    n_drawn: u64,
}

impl Rough {
    /// Of the end that `end` tells from all others of the run.
    pub(super) fn new(links: RoughLinks, end: impl Hash) -> Self {
        Self { seed: hash((links, end)), n_drawn: 0 }
    }

    /// How long to stall before the next read or write, and how many bytes it may move at most. All orders of magnitude are
    /// equally likely.
    pub(super) fn draw(&mut self) -> (Option<Duration>, usize) {
        self.n_drawn += 1;
        let random = hash((self.seed, self.n_drawn));
        let (stall, bits, low) = (random.is_multiple_of(STALLS), (random >> 8) % MAX_BITS, random >> 32);
        let stall = stall.then(|| Duration::from_micros(low % LONGEST_STALL));
        (stall, (1 << bits) + (low as usize & ((1 << bits) - 1)))
    }
}

/// The standard library's hash with its fixed keys: the same in every process of one build.
fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_rough_and_the_same_every_time() {
        let draw = |seed, end: u32| {
            let mut rough = Rough::new(RoughLinks { seed }, end);
            std::iter::repeat_with(move || rough.draw()).take(1000).collect::<Vec<_>>()
        };
        let drawn = draw(1, 0);
        assert!(drawn == draw(1, 0) && drawn != draw(2, 0) && drawn != draw(1, 1));
        assert!(drawn.iter().any(|(stall, _)| stall.is_some()) && drawn.iter().any(|(stall, _)| stall.is_none()));
        assert!(drawn.iter().any(|(_, n)| *n == 1) && drawn.iter().any(|(_, n)| *n > 1 << 20));
        assert!(drawn.iter().all(|(_, n)| (1..1 << MAX_BITS).contains(n)));
    }
}
