//! What is searched for, and for how long.

use super::SynthError;
use crate::placement::Placement;

/// Most pairs of stage and microbatch that are searched.
pub const MAX_PAIRS: u64 = 1 << 16;
/// Longest that all computations and messages may take one after the other, in ticks.
pub const MAX_TICKS: u64 = 1 << 48;

/// A pipeline whose order is searched: the same costs on every stage, a limit on what each rank holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Problem {
    /// Ranks.
    pub pp: u32,
    /// Chunks per rank: 1, or 2 for the V ([`Placement::v`]).
    pub n_chunks: u32,
    /// Microbatches.
    pub microbatches: u32,
    /// Ticks of a forward of one stage.
    pub forward: u64,
    /// Ticks of a backward for the input.
    pub backward_input: u64,
    /// Ticks of a backward for the weights.
    pub backward_weight: u64,
    /// Ticks from the end of a computation until another rank has its message.
    pub latency: u64,
    /// The most half-activations a rank may hold; none for no limit. A forward takes two, when it begins; an input gradient
    /// gives back one and a weight gradient the other, when they are done.
    pub memory: Option<u64>,
}

impl Problem {
    /// Every computation takes one tick, messages none; no limit.
    pub const fn unit(pp: u32, n_chunks: u32, microbatches: u32) -> Self {
        Self { pp, n_chunks, microbatches, forward: 1, backward_input: 1, backward_weight: 1, latency: 0, memory: None }
    }

    /// The smallest limit under which there is an order: every rank has to hold one microbatch's activations of all its
    /// chunks, and one at a time can always be run.
    pub const fn smallest_memory(&self) -> u64 {
        2 * self.n_chunks as u64
    }

    /// Which rank holds which stage.
    pub(crate) fn placement(&self) -> Placement {
        if self.n_chunks == 2 { Placement::v(self.pp) } else { Placement::looped(self.pp, 1) }
    }

    pub(crate) fn check(&self) -> Result<(), SynthError> {
        if !matches!(self.n_chunks, 1 | 2) {
            return Err(SynthError::Chunks { given: self.n_chunks });
        }
        for (what, value) in [("pp", self.pp), ("microbatches", self.microbatches)] {
            if value == 0 {
                return Err(SynthError::Empty { what });
            }
        }
        let pairs = (u64::from(self.pp) * u64::from(self.microbatches)).saturating_mul(self.n_chunks.into());
        if pairs > MAX_PAIRS {
            return Err(SynthError::TooLarge { pairs });
        }
        let costs = [self.forward, self.backward_input, self.backward_weight, self.latency, self.latency];
        let microbatch = costs.into_iter().fold(0_u64, u64::saturating_add);
        if microbatch.saturating_mul(pairs) > MAX_TICKS {
            return Err(SynthError::TooLong);
        }
        match self.memory {
            Some(limit) if limit < self.smallest_memory() => {
                Err(SynthError::Memory { limit, smallest: self.smallest_memory() })
            }
            _ => Ok(()),
        }
    }
}

/// How much work a search may do. It ends earlier once an order is as short as the lower bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Most policies played out in each place where seeds are made: plain ones, and from each of five patterns on. There
    /// are up to three such places: the problem itself, with few microbatches, and with ranks far apart.
    pub plays: u32,
    /// Most moves tried, in all climbs together; with one chunk, a tenth.
    pub moves: u64,
    /// Most moves tried after that to make the longest stage shorter; with two chunks, a third.
    pub polish: u64,
    /// Most policies played out under each tighter limit.
    pub thrift: u32,
}

impl Budget {
    /// What [`super::search`] does: some tenths of a second for 8 ranks and 32 microbatches where the bound is not reached.
    pub const DEFAULT: Self = Self { plays: 400, moves: 120_000, polish: 60_000, thrift: 60 };
    /// Policies only, for searches among many problems.
    pub const QUICK: Self = Self { plays: 100, moves: 0, polish: 0, thrift: 0 };
}
