//! The lowering policies by name.

use std::str::FromStr;

use super::CommandError;
use crate::config::ScheduleConfig;
use crate::lower::{lanes, megatron, stagger};
use crate::program::Program;

/// A policy, as named on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) enum Policy {
    /// Every channel a lane of its own.
    #[default]
    Lanes,
    /// Megatron's exchanges, issued and waited for so.
    Megatron(megatron::Issue, megatron::Overlap),
    /// HyperParallel's 1F1B.
    Stagger,
}

impl Policy {
    const ALL: [(&'static str, Self); 6] = [
        ("lanes", Self::Lanes),
        ("megatron", Self::Megatron(megatron::Issue::Batched, megatron::Overlap::Off)),
        ("megatron-even-odd", Self::Megatron(megatron::Issue::EvenOdd, megatron::Overlap::Off)),
        ("megatron-flush", Self::Megatron(megatron::Issue::EvenOdd, megatron::Overlap::WarmupFlush)),
        ("megatron-overlap", Self::Megatron(megatron::Issue::EvenOdd, megatron::Overlap::Steady)),
        ("stagger", Self::Stagger),
    ];

    /// The program of a configuration under this policy.
    pub(super) fn lower(self, config: &ScheduleConfig) -> Result<Program, CommandError> {
        Ok(match self {
            Self::Lanes => lanes::lower(config),
            Self::Megatron(issue, overlap) => {
                megatron::lower(config, megatron::Options { issue, overlap, ..megatron::Options::default() })?
            }
            Self::Stagger => stagger::lower(config)?,
        })
    }
}

/// A name that is no policy's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown policy `{name}` (--policy); known: {}", Policy::ALL.map(|(name, _)| name).join(", "))]
pub(super) struct UnknownPolicy {
    name: String,
}

impl FromStr for Policy {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, policy)| policy).ok_or_else(|| UnknownPolicy { name: name.to_owned() })
    }
}
