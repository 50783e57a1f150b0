//! What there is to check, part by part, and how long each may take.

use std::time::Duration;

use crate::report::Ground;

/// All parts together, with what starting their processes takes, end within this.
pub const TOTAL: Duration = Duration::from_secs(480);

/// Checks that belong together, in a process of their own: a fault on the device spoils all later work of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum PartName {
    /// The GPU, its driver, NCCL.
    Facts,
    /// Every operation of the model against the processor's in double precision.
    Ops,
    /// NCCL with one rank.
    Nccl,
    /// Two ranks on one GPU.
    Pair,
    /// Training steps against the processor's.
    Training,
    /// How fast it is.
    Figures,
}

impl PartName {
    /// All, in the order they run.
    pub const ALL: [Self; 6] = [Self::Facts, Self::Ops, Self::Nccl, Self::Pair, Self::Training, Self::Figures];

    /// As it is typed.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Facts => "facts",
            Self::Ops => "ops",
            Self::Nccl => "nccl",
            Self::Pair => "pair",
            Self::Training => "training",
            Self::Figures => "figures",
        }
    }

    /// How long it may take.
    pub const fn budget(self) -> Duration {
        Duration::from_secs(match self {
            Self::Facts => 20,
            Self::Ops => 90,
            Self::Nccl => 40,
            Self::Pair => 110,
            Self::Training => 110,
            Self::Figures => 80,
        })
    }

    /// Whether it can run on that ground: NCCL not on the processor, computations not on the emulator.
    pub const fn runs_on(self, ground: Ground) -> bool {
        match ground {
            Ground::Cuda => true,
            Ground::Cpu => matches!(self, Self::Ops | Self::Training | Self::Figures),
            Ground::Emulator => matches!(self, Self::Facts | Self::Nccl | Self::Pair),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_fit_into_eight_minutes_with_time_to_start_them() {
        let sum: Duration = PartName::ALL.iter().map(|part| part.budget()).sum();
        assert!(sum + Duration::from_secs(5) * PartName::ALL.len() as u32 <= TOTAL, "{sum:?}");
    }

    #[test]
    fn every_part_is_rehearsed_somewhere() {
        for part in PartName::ALL {
            assert!(part.runs_on(Ground::Cuda));
            assert!(part.runs_on(Ground::Cpu) || part.runs_on(Ground::Emulator), "{part:?}");
        }
    }
}
