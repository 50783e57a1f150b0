//! The policy's options, and which of them go together.

use std::fmt;
use std::str::FromStr;

use crate::config::{ScheduleConfig, ScheduleKind};
use crate::figures::counts;
use crate::ids::Rank;

/// How the transfers of one exchange are issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Issue {
    /// As one group: to the previous rank, from the previous, to the next, from the next.
    #[default]
    Batched,
    /// One by one: even ranks send first, odd ranks receive first.
    EvenOdd,
    /// As one ring exchange.
    Ring,
}

/// Which exchanges are waited for later rather than at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Overlap {
    /// None.
    #[default]
    Off,
    /// Those of the steady phase.
    Steady,
    /// Those of the warmup and the cooldown ("flush") too.
    WarmupFlush,
}

/// A name that is no mode's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown way to {what} `{name}`; known: {}", known.join(", "))]
pub struct UnknownMode {
    what: &'static str,
    name: String,
    known: [&'static str; 3],
}

macro_rules! named {
    ($mode:ident, $what:literal, $(($name:literal, $variant:ident)),*) => {
        impl $mode {
            /// Every one, by name.
            pub const ALL: [(&'static str, Self); 3] = [$(($name, Self::$variant)),*];

            /// Its name on the command line.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }
        }

        impl fmt::Display for $mode {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }

        impl FromStr for $mode {
            type Err = UnknownMode;

            fn from_str(name: &str) -> Result<Self, Self::Err> {
                let found = Self::ALL.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
                let unknown = || UnknownMode { what: $what, name: name.to_owned(), known: Self::ALL.map(|(name, _)| name) };
                found.map(|(_, mode)| mode).ok_or_else(unknown)
            }
        }
    };
}
named!(Issue, "issue exchanges", ("batched", Batched), ("even-odd", EvenOdd), ("ring", Ring));
named!(Overlap, "overlap exchanges", ("off", Off), ("steady", Steady), ("warmup-flush", WarmupFlush));

/// When a send's buffer may be freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum SendRelease {
    /// Once the send was waited for.
    #[default]
    Waited,
    /// At once, as megatron-core 0.16.1 does: the data may be overwritten while it is sent. Only to reproduce its traces;
    /// the verifier refuses such a program.
    Unwaited,
}

/// The options of the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Options {
    /// How an exchange is issued (Megatron: `batch_p2p_comm`, `use_ring_exchange_p2p`).
    pub issue: Issue,
    /// Which exchanges overlap computation (Megatron: `overlap_p2p_comm`, `overlap_p2p_comm_warmup_flush`).
    pub overlap: Overlap,
    /// Free a stage's output once it is sent (Megatron: `deallocate_pipeline_outputs`).
    pub deallocate: bool,
    /// Mark when gradients and parameters are to be synchronised (Megatron: `grad_sync_func`, `param_sync_func`).
    pub sync_functions: bool,
    /// Of each window of microbatches, this many are not fully recomputed
    /// (Megatron: `num_microbatches_with_partial_activation_checkpoints`).
    pub partial_checkpoints: Option<u32>,
    /// When a send's buffer may be freed.
    pub release: SendRelease,
}

impl Default for Options {
    /// Batched exchanges, no overlap, outputs freed once sent.
    fn default() -> Self {
        Self {
            issue: Issue::Batched,
            overlap: Overlap::Off,
            deallocate: true,
            sync_functions: false,
            partial_checkpoints: None,
            release: SendRelease::Waited,
        }
    }
}

/// What Megatron refuses, or where it crashes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MegatronError {
    /// A schedule that Megatron does not have.
    #[error("the megatron policy has no schedule `{kind}`; it has 1f1b, interleaved and none")]
    NoSuchSchedule {
        /// The schedule.
        kind: ScheduleKind,
    },
    /// Overlap with batched exchanges.
    #[error(
        "overlapped exchanges cannot be issued in batches or as a ring; issue them even-odd, or turn the overlap off"
    )]
    OverlapNeedsEvenOdd,
    /// Overlap with a schedule other than interleaved.
    #[error("schedule {kind} does not overlap its exchanges; turn the overlap off, or use interleaved")]
    OverlapNeedsInterleaved {
        /// The schedule.
        kind: ScheduleKind,
    },
    /// Two ranks, both directions in one batch.
    #[error(
        "interleaved over --pp 2 cannot exchange in batches or as a ring: next and previous rank are the same, so on one \
         channel an activation may be taken for a gradient; issue even-odd, use --pp 3 or more, or the lanes policy"
    )]
    BatchedOverTwoRanks,
    /// `--allow-bubbles` is ours.
    #[error("the megatron policy has no uneven groups (--allow-bubbles); use the lanes policy")]
    UnevenGroups,
    /// Megatron synchronises the parameters of the first two chunks unasked.
    #[error("sync functions with interleaved need at least two chunks per rank, but --vp is {vp}; use --vp 2")]
    SyncNeedsTwoChunks {
        /// Chunks per rank.
        vp: u32,
    },
    /// Overlap on a rank without warmup: Megatron looks at an output that is not there yet.
    #[error("overlapped interleaved needs a warmup on every rank, but rank {rank} has none with --vp {vp}; use --vp 2")]
    OverlapNeedsWarmup {
        /// The rank.
        rank: Rank,
        /// Chunks per rank.
        vp: u32,
    },
}

impl Options {
    /// Whether Megatron would run these on a rank.
    pub(super) fn check(self, config: &ScheduleConfig, rank: Rank) -> Result<(), MegatronError> {
        let kind = config.kind();
        let interleaved = kind == ScheduleKind::Interleaved;
        if self.overlap != Overlap::Off && !interleaved {
            return Err(MegatronError::OverlapNeedsInterleaved { kind });
        }
        if self.overlap != Overlap::Off && self.issue != Issue::EvenOdd {
            return Err(MegatronError::OverlapNeedsEvenOdd);
        }
        if matches!(config.groups(), crate::groups::Groups::Even { .. }) {
            return Err(MegatronError::UnevenGroups);
        }
        let vp = config.vp();
        if self.sync_functions && !config.forward_only() && interleaved && vp < 2 {
            return Err(MegatronError::SyncNeedsTwoChunks { vp });
        }
        if self.overlap != Overlap::Off && counts(config, rank).warmup == 0 {
            return Err(MegatronError::OverlapNeedsWarmup { rank, vp });
        }
        match kind {
            ScheduleKind::NoPipelining | ScheduleKind::OneFOneB | ScheduleKind::Interleaved => Ok(()),
            kind => Err(MegatronError::NoSuchSchedule { kind }),
        }
    }
}
