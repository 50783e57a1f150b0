//! What was asked for ([`ScheduleSpec`]) and what may run ([`ScheduleConfig`]: only valid values exist).

mod error;
mod kind;
mod spec;

pub use error::ConfigError;
pub use kind::{GPipeBackward, ScheduleKind};
pub use spec::ScheduleSpec;

use crate::groups::{Groups, group_rule_holds, nearest};
use crate::placement::{Placement, Shape};
use crate::synth::MAX_PAIRS;

/// The most `pp * vp * microbatches` a program may have: eight times 256 ranks with 4 chunks and 1024 microbatches. A program
/// of that size takes about 2 GiB.
pub const MAX_CELLS: u64 = 1 << 23;

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
        check_flags(spec)?;
        let (kind, vp) = (spec.resolved_kind(), spec.resolved_vp());
        let &ScheduleSpec { pp, microbatches, .. } = spec;
        let cells = u64::from(pp).saturating_mul(u64::from(vp)).saturating_mul(u64::from(microbatches));
        if cells > MAX_CELLS {
            return Err(ConfigError::TooLarge { pp, vp, microbatches });
        }
        if kind.is_searched() && cells > MAX_PAIRS {
            return Err(ConfigError::TooLargeToSearch { kind, pp, microbatches, most: MAX_PAIRS / u64::from(pp * vp) });
        }
        check_placement(kind, pp, vp)?;
        if kind == ScheduleKind::DualPipeV && microbatches / 2 < pp && !spec.allow_bubbles {
            return Err(ConfigError::TooFewForDualPipeV { pp, microbatches });
        }
        let groups = match kind {
            ScheduleKind::Interleaved => interleaved_groups(spec)?,
            ScheduleKind::InterleavedZb => rounds(spec)?,
            _ => Groups::Uniform { size: pp },
        };
        Ok(Self {
            kind,
            placement: Placement::shaped(kind.shape(), pp, vp),
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

    /// How the microbatches are grouped (only interleaved and interleaved-zb look at it).
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

/// Sizes of zero, and flags that the schedule has no use for.
fn check_flags(spec: &ScheduleSpec) -> Result<(), ConfigError> {
    for (flag, value) in [
        ("--pp", Some(spec.pp)),
        ("--vp", Some(spec.vp)),
        ("--microbatches", Some(spec.microbatches)),
        ("--group-size", spec.group_size),
    ] {
        if value == Some(0) {
            return Err(ConfigError::Zero { flag });
        }
    }
    let kind = spec.resolved_kind();
    for (flag, given, only) in [
        ("--group-size", spec.group_size.is_some(), ScheduleKind::Interleaved),
        ("--gpipe-backward", spec.gpipe_backward.is_some(), ScheduleKind::GPipe),
    ] {
        if given && kind != only {
            return Err(ConfigError::NotForThisSchedule { flag, kind, only });
        }
    }
    Ok(())
}

fn check_placement(kind: ScheduleKind, pp: u32, vp: u32) -> Result<(), ConfigError> {
    match kind {
        ScheduleKind::NoPipelining if pp > 1 => Err(ConfigError::NoPipeliningOnRanks { pp }),
        ScheduleKind::OneFOneB | ScheduleKind::GPipe | ScheduleKind::ZbH1 | ScheduleKind::ZbH2 if vp > 1 => {
            Err(ConfigError::OneChunkOnly { kind, vp })
        }
        _ if matches!(kind.shape(), Shape::V) && vp != 2 => Err(ConfigError::TwoChunksOnly { kind, vp }),
        ScheduleKind::Interleaved if pp == 1 => Err(ConfigError::InterleavedOnOneRank { vp }),
        _ => Ok(()),
    }
}

/// As many groups of at least `pp` microbatches as there can be, and at least one.
fn even_groups(pp: u32, microbatches: u32) -> Groups {
    Groups::Even { count: (microbatches / pp).max(1) }
}

/// torch's rounds: groups of one size, as many as there can be, unless bubbles are allowed.
fn rounds(spec: &ScheduleSpec) -> Result<Groups, ConfigError> {
    let &ScheduleSpec { pp, microbatches, .. } = spec;
    let divide = |microbatches: u32| microbatches.is_multiple_of((microbatches / pp).max(1));
    if spec.allow_bubbles || divide(microbatches) {
        return Ok(even_groups(pp, microbatches));
    }
    // A multiple of pp is never far.
    let below = (1..microbatches).rev().find(|&fewer| divide(fewer)).unwrap_or(pp);
    let above = (microbatches..u32::MAX).find(|&more| divide(more)).unwrap_or(pp);
    Err(ConfigError::UnevenRounds { pp, microbatches, below, above })
}

fn interleaved_groups(spec: &ScheduleSpec) -> Result<Groups, ConfigError> {
    let &ScheduleSpec { pp, microbatches, group_size, .. } = spec;
    if spec.allow_bubbles {
        return match group_size {
            None => Ok(even_groups(pp, microbatches)),
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
