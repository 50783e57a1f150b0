//! The lowering policies by name: how transfers are posted and waited for, whatever is computed.

use std::fmt;
use std::str::FromStr;

use super::megatron::{Issue, MegatronError, Overlap};
use super::stagger::StaggerError;
use super::{lanes, megatron, stagger};
use crate::config::ScheduleConfig;
use crate::ids::Rank;
use crate::program::{Channel, Program, RankProgram};

/// A policy that flags can ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Policy {
    /// Every channel a lane of its own.
    #[default]
    Lanes,
    /// Megatron's exchanges, issued and waited for so; outputs are freed once they are sent.
    Megatron(Issue, Overlap),
    /// HyperParallel's 1F1B.
    Stagger,
}

/// What a policy does not take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// What Megatron refuses, or where it crashes.
    #[error(transparent)]
    Megatron(#[from] MegatronError),
    /// What the stagger cannot do.
    #[error(transparent)]
    Stagger(#[from] StaggerError),
}

impl Policy {
    /// Every policy that takes some schedule, by name.
    pub const ALL: [(&'static str, Self); 7] = [
        ("lanes", Self::Lanes),
        ("megatron", Self::Megatron(Issue::Batched, Overlap::Off)),
        ("megatron-even-odd", Self::Megatron(Issue::EvenOdd, Overlap::Off)),
        ("megatron-flush", Self::Megatron(Issue::EvenOdd, Overlap::WarmupFlush)),
        ("megatron-overlap", Self::Megatron(Issue::EvenOdd, Overlap::Steady)),
        ("megatron-ring", Self::Megatron(Issue::Ring, Overlap::Off)),
        ("stagger", Self::Stagger),
    ];

    /// Whether it takes a configuration, found without building the program.
    ///
    /// # Errors
    /// [`PolicyError`] when it does not.
    pub fn check(self, config: &ScheduleConfig) -> Result<(), PolicyError> {
        match self {
            Self::Lanes => Ok(()),
            Self::Megatron(issue, overlap) => Ok(megatron::check(config, options(issue, overlap))?),
            Self::Stagger => Ok(stagger::check(config)?),
        }
    }

    /// The program of a configuration.
    ///
    /// # Errors
    /// As [`Policy::check`].
    pub fn lower(self, config: &ScheduleConfig) -> Result<Program, PolicyError> {
        Ok(match self {
            Self::Lanes => lanes::lower(config),
            Self::Megatron(issue, overlap) => megatron::lower(config, options(issue, overlap))?,
            Self::Stagger => stagger::lower(config)?,
        })
    }

    /// The program of one rank, built without the other ranks', and the channels of the whole program. Equal to that rank of
    /// [`Policy::lower`].
    ///
    /// # Errors
    /// As [`Policy::check`].
    pub fn lower_rank(self, config: &ScheduleConfig, rank: Rank) -> Result<(RankProgram, Vec<Channel>), PolicyError> {
        Ok(match self {
            Self::Lanes => lanes::lower_rank(config, rank),
            Self::Megatron(issue, overlap) => megatron::lower_rank(config, options(issue, overlap), rank)?,
            Self::Stagger => stagger::lower_rank(config, rank)?,
        })
    }

    /// The policy for a forward-only step beside training steps of this one: itself, but for the stagger, which has none.
    pub const fn for_forwards(self) -> Self {
        match self {
            Self::Stagger => Self::Lanes,
            policy => policy,
        }
    }
}

fn options(issue: Issue, overlap: Overlap) -> megatron::Options {
    megatron::Options { issue, overlap, ..megatron::Options::default() }
}

impl fmt::Display for Policy {
    /// Its name; exchanges that no schedule takes have Megatron's.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = Self::ALL.into_iter().find(|(_, policy)| policy == self);
        f.write_str(found.map_or("megatron", |(name, _)| name))
    }
}

/// A name that is no policy's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown policy `{name}` (--policy); known: {}", Policy::ALL.map(|(name, _)| name).join(", "))]
pub struct UnknownPolicy {
    name: String,
}

impl FromStr for Policy {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, policy)| policy).ok_or_else(|| UnknownPolicy { name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ScheduleKind, ScheduleSpec};

    #[test]
    fn a_rank_lowers_by_itself_what_the_whole_has_and_checks_foretell_what_is_refused() {
        let (mut n_taken, mut n_refused) = (0, 0);
        let sizes = (1..=4).flat_map(|pp| (1..=3).flat_map(move |vp| [1, 3, 4, 8].map(|m| (pp, vp, m))));
        for (pp, vp, m) in sizes {
            for schedule in ScheduleKind::ALL {
                let spec = ScheduleSpec { schedule: Some(schedule), ..ScheduleSpec::new(pp, vp, m) };
                let Ok(config) = ScheduleConfig::new(&spec) else { continue };
                for config in [config.to_forward_only(), config] {
                    for (name, policy) in Policy::ALL {
                        let whole = policy.lower(&config);
                        assert_eq!(policy.check(&config).err(), whole.as_ref().err().cloned(), "{name} {config:?}");
                        let Ok(whole) = whole else {
                            n_refused += 1;
                            assert!(policy.lower_rank(&config, Rank(0)).is_err(), "{name} {config:?}");
                            continue;
                        };
                        n_taken += 1;
                        for (rank, program) in (0..).map(Rank).zip(&whole.ranks) {
                            let (own, channels) = policy.lower_rank(&config, rank).expect("as the whole");
                            assert!(own == *program && channels == whole.channels, "{name} {config:?} rank {rank}");
                        }
                    }
                }
            }
        }
        assert!(n_taken > 400 && n_refused > 1000, "{n_taken} taken, {n_refused} refused");
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        for (name, policy) in Policy::ALL {
            assert_eq!((policy.to_string().as_str(), name.parse::<Policy>()), (name, Ok(policy)));
        }
        let known = "lanes, megatron, megatron-even-odd";
        assert!("zigzag".parse::<Policy>().is_err_and(|error| error.to_string().contains(known)));
    }
}
