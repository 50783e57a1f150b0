//! The schedules there are, by name.

use std::str::FromStr;

use pp_schedule::lower::stagger::StaggerError;
use pp_schedule::lower::{lanes, stagger};
use pp_schedule::{Program, ScheduleConfig, ScheduleKind, ScheduleSpec};

use super::error::ContractError;

/// A schedule of the registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Schedule {
    /// One forward, one backward, with the turns by parity that need as many microbatches as ranks.
    OneFOneB,
    /// All forwards, then all backwards in reverse; any number of microbatches.
    GPipe,
}

impl Schedule {
    /// Every schedule, in the order of its name.
    pub const ALL: [Self; 2] = [Self::OneFOneB, Self::GPipe];

    /// Its name.
    pub const fn name(self) -> &'static str {
        self.kind().name()
    }

    const fn kind(self) -> ScheduleKind {
        match self {
            Self::OneFOneB => ScheduleKind::OneFOneB,
            Self::GPipe => ScheduleKind::GPipe,
        }
    }

    /// The program of a step.
    pub(super) fn program(self, pp: u32, microbatches: u32) -> Result<Program, ContractError> {
        let spec = ScheduleSpec { schedule: Some(self.kind()), ..ScheduleSpec::new(pp, 1, microbatches) };
        let config = ScheduleConfig::new(&spec)?;
        match self {
            Self::OneFOneB => stagger::lower(&config).map_err(|error| match error {
                // In the words of this contract, which knows no flags.
                StaggerError::TooFewMicrobatches { pp: n_stages, microbatches } => {
                    ContractError::TooFewMicrobatches { microbatches, n_stages }
                }
                other => other.into(),
            }),
            Self::GPipe => Ok(lanes::lower(&config)),
        }
    }
}

impl FromStr for Schedule {
    type Err = ContractError;

    /// By name, in upper or lower case.
    fn from_str(name: &str) -> Result<Self, ContractError> {
        let found = Self::ALL.into_iter().find(|schedule| schedule.name().eq_ignore_ascii_case(name));
        let known = || Self::ALL.map(Self::name).to_vec();
        found.ok_or_else(|| ContractError::UnknownSchedule { name: name.chars().take(40).collect(), known: known() })
    }
}
