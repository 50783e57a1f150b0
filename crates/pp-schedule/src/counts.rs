//! How many virtual microbatches a rank runs before, in and after the steady phase.

use crate::ids::Rank;

/// The sizes that Megatron's counts depend on. They need not make a valid schedule: the counts are defined for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountsInput {
    /// Pipeline ranks.
    pub pp: u32,
    /// The rank asked about.
    pub rank: Rank,
    /// Model chunks per rank; `None` without a virtual pipeline.
    pub vp: Option<u32>,
    /// Microbatches per step.
    pub microbatches: u32,
    /// Microbatch group size per virtual stage.
    pub group_size: u32,
    /// Forwards only.
    pub forward_only: bool,
}

/// Megatron's counts for one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Virtual microbatches, `microbatches * vp`.
    pub total: u32,
    /// Forwards before the first backward.
    pub warmup: u32,
    /// Forwards that are paired with a backward, `total - warmup`.
    pub remaining: u32,
    /// Whether the warmup, before it is capped, covers every forward.
    pub all_in_warmup: bool,
    /// The warmup when expert-parallel communication is overlapped: one more, where a virtual pipeline leaves room.
    pub warmup_moe_overlap: u32,
}

impl Counts {
    /// Counts for one rank: warmup `(pp - rank - 1) * 2 + (vp - 1) * group` with a virtual pipeline,
    /// `pp - rank - 1` without, 0 on a single rank, and everything when forward-only; capped at the total.
    pub fn new(input: CountsInput) -> Self {
        let CountsInput { pp, rank, vp, microbatches, group_size, forward_only } = input;
        let total = u64::from(microbatches) * u64::from(vp.unwrap_or(1));
        let ahead = u64::from(pp.saturating_sub(rank.0 + 1));
        let uncapped = match vp {
            _ if forward_only => total,
            _ if pp <= 1 => 0,
            Some(vp) => ahead * 2 + u64::from(vp.saturating_sub(1)) * u64::from(group_size),
            None => ahead,
        };
        let all_in_warmup = uncapped >= total;
        let warmup = uncapped.min(total);
        let moe = u64::from(pp > 1 && vp.is_some() && !all_in_warmup);
        let narrow = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        Self {
            total: narrow(total),
            warmup: narrow(warmup),
            remaining: narrow(total - warmup),
            all_in_warmup,
            warmup_moe_overlap: narrow(warmup + moe),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warmup_of_the_published_example() {
        let warmup = |vp| -> Vec<u32> {
            (0..4)
                .map(|rank| {
                    let rank = Rank(rank);
                    let input = CountsInput { pp: 4, rank, vp, microbatches: 8, group_size: 4, forward_only: false };
                    Counts::new(input).warmup
                })
                .collect()
        };
        assert_eq!(warmup(Some(2)), [10, 8, 6, 4]);
        assert_eq!(warmup(None), [3, 2, 1, 0]);
    }
}
