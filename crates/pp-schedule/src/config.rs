//! What was asked for ([`ScheduleSpec`]) and what may run ([`ScheduleConfig`]: only valid values exist).

use std::fmt;
use std::str::FromStr;

use crate::groups::{Groups, group_rule_holds, nearest};
use crate::placement::Placement;

/// The most `pp * vp * microbatches` a program may have: eight times 256 ranks with 4 chunks and 1024 microbatches. A program
/// of that size takes about 2 GiB.
pub const MAX_CELLS: u64 = 1 << 23;

/// The schedules this crate generates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ScheduleKind {
    /// Each microbatch's forward and backward at once, on one rank.
    NoPipelining,
    /// All forwards, then all backwards.
    GPipe,
    /// One forward, one backward (PipeDream-flush).
    OneFOneB,
    /// 1F1B over several model chunks per rank.
    Interleaved,
}

impl ScheduleKind {
    /// Every schedule, in the order of its name.
    pub const ALL: [Self; 4] = [Self::OneFOneB, Self::GPipe, Self::Interleaved, Self::NoPipelining];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoPipelining => "none",
            Self::GPipe => "gpipe",
            Self::OneFOneB => "1f1b",
            Self::Interleaved => "interleaved",
        }
    }
}

impl fmt::Display for ScheduleKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ScheduleKind {
    type Err = ConfigError;

    /// By name, whatever its case.
    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.name().eq_ignore_ascii_case(name))
            .ok_or_else(|| ConfigError::UnknownSchedule { name: name.to_owned() })
    }
}

/// The order of GPipe's backwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum GPipeBackward {
    /// Last microbatch first (HyperParallel's form).
    #[default]
    Reverse,
    /// First microbatch first (torch's form); gradients then add in the order of an unpipelined run.
    Ascending,
}

impl GPipeBackward {
    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reverse => "reverse",
            Self::Ascending => "ascending",
        }
    }
}

impl FromStr for GPipeBackward {
    type Err = ConfigError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        [Self::Ascending, Self::Reverse]
            .into_iter()
            .find(|order| order.name().eq_ignore_ascii_case(name))
            .ok_or_else(|| ConfigError::UnknownGPipeBackward { name: name.to_owned() })
    }
}

/// What somebody asks for. Nothing in it is checked yet; [`ScheduleConfig::new`] does that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleSpec {
    /// The schedule, or `None` for Megatron's choice: interleaved if `vp > 1`, else 1F1B, and none for one rank.
    pub schedule: Option<ScheduleKind>,
    /// Pipeline ranks.
    pub pp: u32,
    /// Model chunks per rank; 1 means no virtual pipeline.
    pub vp: u32,
    /// Microbatches per step.
    pub microbatches: u32,
    /// Microbatches that a chunk runs in a row before the next chunk (interleaved only; default `pp`).
    pub group_size: Option<u32>,
    /// Interleaved with any number of microbatches, at the price of bubbles.
    pub allow_bubbles: bool,
    /// The order of GPipe's backwards (GPipe only; default reverse).
    pub gpipe_backward: Option<GPipeBackward>,
    /// Forwards only, as in validation.
    pub forward_only: bool,
}

impl ScheduleSpec {
    /// A spec with Megatron's choice of schedule and every option at its default.
    pub const fn new(pp: u32, vp: u32, microbatches: u32) -> Self {
        Self {
            schedule: None,
            pp,
            vp,
            microbatches,
            group_size: None,
            allow_bubbles: false,
            gpipe_backward: None,
            forward_only: false,
        }
    }

    /// The schedule asked for, or Megatron's choice.
    pub fn resolved_kind(&self) -> ScheduleKind {
        self.schedule.unwrap_or(match (self.pp, self.vp) {
            (0 | 1, _) => ScheduleKind::NoPipelining,
            (_, 0 | 1) => ScheduleKind::OneFOneB,
            _ => ScheduleKind::Interleaved,
        })
    }
}

/// A schedule that can be built: every rule on sizes holds.
///
/// ```
/// use pp_schedule::{ScheduleConfig, ScheduleSpec};
/// let config = ScheduleConfig::new(&ScheduleSpec::new(4, 2, 8)).unwrap();
/// assert_eq!(config.kind().name(), "interleaved");
/// let error = ScheduleConfig::new(&ScheduleSpec::new(4, 2, 3)).unwrap_err();
/// assert!(error.to_string().contains("--microbatches 4"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ScheduleConfig {
    kind: ScheduleKind,
    placement: Placement,
    microbatches: u32,
    groups: Groups,
    gpipe_backward: GPipeBackward,
    forward_only: bool,
}

impl ScheduleConfig {
    /// Checks a spec against every rule of its schedule.
    ///
    /// # Errors
    /// A [`ConfigError`] that names the flags, their values, the rule and the nearest values that work.
    pub fn new(spec: &ScheduleSpec) -> Result<Self, ConfigError> {
        let &ScheduleSpec { pp, vp, microbatches, group_size, .. } = spec;
        for (flag, value) in [
            ("--pp", Some(pp)),
            ("--vp", Some(vp)),
            ("--microbatches", Some(microbatches)),
            ("--group-size", group_size),
        ] {
            if value == Some(0) {
                return Err(ConfigError::Zero { flag });
            }
        }
        let cells = u64::from(pp).saturating_mul(u64::from(vp)).saturating_mul(u64::from(microbatches));
        if cells > MAX_CELLS {
            return Err(ConfigError::TooLarge { pp, vp, microbatches });
        }
        let kind = spec.resolved_kind();
        if kind != ScheduleKind::Interleaved && group_size.is_some() {
            return Err(ConfigError::NotForThisSchedule {
                flag: "--group-size",
                kind,
                only: ScheduleKind::Interleaved,
            });
        }
        if kind != ScheduleKind::GPipe && spec.gpipe_backward.is_some() {
            return Err(ConfigError::NotForThisSchedule { flag: "--gpipe-backward", kind, only: ScheduleKind::GPipe });
        }
        check_placement(kind, pp, vp)?;
        let groups = match kind {
            ScheduleKind::Interleaved => interleaved_groups(spec)?,
            _ => Groups::Uniform { size: pp },
        };
        Ok(Self {
            kind,
            placement: Placement::new(pp, vp),
            microbatches,
            groups,
            gpipe_backward: spec.gpipe_backward.unwrap_or_default(),
            forward_only: spec.forward_only,
        })
    }

    /// The same schedule without its backwards, for validation.
    #[must_use]
    pub fn to_forward_only(self) -> Self {
        Self { forward_only: true, ..self }
    }

    /// The schedule.
    pub const fn kind(&self) -> ScheduleKind {
        self.kind
    }

    /// Which rank holds which stage.
    pub const fn placement(&self) -> Placement {
        self.placement
    }

    /// Pipeline ranks.
    pub const fn pp(&self) -> u32 {
        self.placement.n_ranks()
    }

    /// Model chunks per rank.
    pub const fn vp(&self) -> u32 {
        self.placement.n_chunks()
    }

    /// Microbatches per step.
    pub const fn microbatches(&self) -> u32 {
        self.microbatches
    }

    /// How the microbatches are grouped (only interleaved looks at it).
    pub const fn groups(&self) -> Groups {
        self.groups
    }

    /// The order of GPipe's backwards.
    pub const fn gpipe_backward(&self) -> GPipeBackward {
        self.gpipe_backward
    }

    /// Whether there are forwards only.
    pub const fn forward_only(&self) -> bool {
        self.forward_only
    }
}

fn check_placement(kind: ScheduleKind, pp: u32, vp: u32) -> Result<(), ConfigError> {
    match kind {
        ScheduleKind::NoPipelining if pp > 1 => Err(ConfigError::NoPipeliningOnRanks { pp }),
        ScheduleKind::OneFOneB | ScheduleKind::GPipe if vp > 1 => Err(ConfigError::OneChunkOnly { kind, vp }),
        ScheduleKind::Interleaved if pp == 1 => Err(ConfigError::InterleavedOnOneRank { vp }),
        _ => Ok(()),
    }
}

fn interleaved_groups(spec: &ScheduleSpec) -> Result<Groups, ConfigError> {
    let &ScheduleSpec { pp, microbatches, group_size, .. } = spec;
    if spec.allow_bubbles {
        return match group_size {
            None => Ok(Groups::Even { count: (microbatches / pp).max(1) }),
            Some(group_size) => Err(ConfigError::BubblesWithGroupSize { group_size }),
        };
    }
    let size = group_size.unwrap_or(pp);
    if group_rule_holds(pp, size, microbatches) {
        return Ok(Groups::Uniform { size });
    }
    let advice = nearest(pp, size, microbatches, group_size.is_some());
    let given = group_size.is_some();
    Err(if size < pp || size > microbatches {
        ConfigError::GroupSizeOutOfRange { pp, group_size: size, given, microbatches, advice }
    } else {
        ConfigError::Remainder { pp, group_size: size, given, microbatches, remainder: microbatches % size, advice }
    })
}

/// Why a spec is no schedule. Each message names flag, value, rule and the nearest thing that works.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A name that is no schedule's.
    #[error("unknown schedule `{name}` (--schedule); known: {}", known_schedules())]
    UnknownSchedule {
        /// The name given.
        name: String,
    },
    /// A name that is no order of GPipe's backwards.
    #[error("unknown order `{name}` (--gpipe-backward); known: ascending, reverse")]
    UnknownGPipeBackward {
        /// The name given.
        name: String,
    },
    /// A size of zero.
    #[error("{flag} is 0, but must be at least 1")]
    Zero {
        /// The flag that was 0.
        flag: &'static str,
    },
    /// A program of this size would not fit in memory.
    #[error(
        "--pp {pp} x --vp {vp} x --microbatches {microbatches} is more than {MAX_CELLS} pairs of stage and microbatch, \
         the most a program may have; use fewer microbatches"
    )]
    TooLarge {
        /// Pipeline ranks.
        pp: u32,
        /// Chunks per rank.
        vp: u32,
        /// Microbatches.
        microbatches: u32,
    },
    /// A flag that the schedule has no use for.
    #[error("{flag} is for --schedule {only} only, but the schedule is {kind}; leave it out")]
    NotForThisSchedule {
        /// The flag.
        flag: &'static str,
        /// The schedule resolved.
        kind: ScheduleKind,
        /// The schedule that takes the flag.
        only: ScheduleKind,
    },
    /// `none` over several ranks.
    #[error("--schedule none runs on one rank, but --pp is {pp}; use --pp 1, or --schedule 1f1b")]
    NoPipeliningOnRanks {
        /// Pipeline ranks.
        pp: u32,
    },
    /// Several chunks per rank with a schedule that takes one.
    #[error(
        "--schedule {kind} takes one model chunk per rank, but --vp is {vp}; use --vp 1, or --schedule interleaved"
    )]
    OneChunkOnly {
        /// The schedule.
        kind: ScheduleKind,
        /// Chunks per rank.
        vp: u32,
    },
    /// Interleaved on a single rank.
    #[error("--schedule interleaved needs at least two ranks, but --pp is 1; use --pp 2, or --schedule none --vp {vp}")]
    InterleavedOnOneRank {
        /// Chunks per rank.
        vp: u32,
    },
    /// `--allow-bubbles` chooses the groups itself.
    #[error(
        "--allow-bubbles chooses the groups itself, but --group-size {group_size} is given too; leave one of them out"
    )]
    BubblesWithGroupSize {
        /// The group size given.
        group_size: u32,
    },
    /// The group size is not within `[pp, microbatches]`.
    #[error(
        "interleaved needs pp <= group size <= microbatches, but --pp is {pp}, --group-size {group_size}{}, \
         --microbatches {microbatches}; {advice}",
        if *given { "" } else { " (the default: pp)" }
    )]
    GroupSizeOutOfRange {
        /// Pipeline ranks.
        pp: u32,
        /// The group size.
        group_size: u32,
        /// Whether it was given rather than defaulted.
        given: bool,
        /// Microbatches.
        microbatches: u32,
        /// The nearest values that work.
        advice: String,
    },
    /// The last group would be too small to keep every rank busy.
    #[error(
        "interleaved needs microbatches % group size to be 0 or at least pp, but --microbatches {microbatches} % \
         --group-size {group_size}{} is {remainder} and --pp is {pp}; {advice}",
        if *given { "" } else { " (the default: pp)" }
    )]
    Remainder {
        /// Pipeline ranks.
        pp: u32,
        /// The group size.
        group_size: u32,
        /// Whether it was given rather than defaulted.
        given: bool,
        /// Microbatches.
        microbatches: u32,
        /// What is left for the last group.
        remainder: u32,
        /// The nearest values that work.
        advice: String,
    },
}

fn known_schedules() -> String {
    ScheduleKind::ALL.map(ScheduleKind::name).join(", ")
}
