//! The schedules there are, by name, and what sets them apart.

use std::fmt;
use std::str::FromStr;

use super::ConfigError;
use crate::placement::Shape;

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
    /// GPipe over several model chunks per rank, chunk by chunk (breadth first).
    LoopedBfs,
    /// 1F1B with weight gradients put off until there is nothing else to do, in the memory of 1F1B.
    ZbH1,
    /// The same with more forwards ahead: no bubble from a rank's first computation to its last, in twice the memory.
    ZbH2,
    /// ZB-H1 over several model chunks per rank.
    InterleavedZb,
    /// Two chunks per rank in a V, with weight gradients put off: no bubble in the memory of 1F1B.
    ZbV,
    /// Two chunks per rank in a V, searched for within about half of 1F1B's memory.
    VHalf,
    /// The same within about a third of it.
    VMin,
    /// Two chunks per rank in a V, with pairs of a forward and a backward that may overlap.
    DualPipeV,
}

impl ScheduleKind {
    /// Every schedule, in the order of its name.
    pub const ALL: [Self; 12] = [
        Self::OneFOneB,
        Self::DualPipeV,
        Self::GPipe,
        Self::Interleaved,
        Self::InterleavedZb,
        Self::LoopedBfs,
        Self::NoPipelining,
        Self::VHalf,
        Self::VMin,
        Self::ZbH1,
        Self::ZbH2,
        Self::ZbV,
    ];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoPipelining => "none",
            Self::GPipe => "gpipe",
            Self::OneFOneB => "1f1b",
            Self::Interleaved => "interleaved",
            Self::LoopedBfs => "looped-bfs",
            Self::ZbH1 => "zb-h1",
            Self::ZbH2 => "zb-h2",
            Self::InterleavedZb => "interleaved-zb",
            Self::ZbV => "zb-v",
            Self::VHalf => "v-half",
            Self::VMin => "v-min",
            Self::DualPipeV => "dualpipe-v",
        }
    }

    /// How its stages are dealt to ranks.
    pub const fn shape(self) -> Shape {
        match self {
            Self::ZbV | Self::VHalf | Self::VMin | Self::DualPipeV => Shape::V,
            Self::NoPipelining
            | Self::GPipe
            | Self::OneFOneB
            | Self::Interleaved
            | Self::LoopedBfs
            | Self::ZbH1
            | Self::ZbH2
            | Self::InterleavedZb => Shape::Loop,
        }
    }

    /// The schedule with the same idea for any number of chunks per rank, where this one takes one chunk, or two.
    pub const fn for_more_chunks(self) -> Self {
        match self {
            Self::GPipe => Self::LoopedBfs,
            Self::OneFOneB => Self::Interleaved,
            Self::ZbH1 | Self::ZbH2 | Self::ZbV | Self::VHalf | Self::VMin | Self::DualPipeV => Self::InterleavedZb,
            Self::NoPipelining | Self::Interleaved | Self::LoopedBfs | Self::InterleavedZb => self,
        }
    }
}

impl ScheduleKind {
    /// Whether its order comes from a search over all ranks ([`crate::synth`]) rather than from a rule for each.
    pub const fn is_searched(self) -> bool {
        matches!(self, Self::VHalf | Self::VMin)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_in_the_order_of_their_names_and_found_by_them() {
        let names = ScheduleKind::ALL.map(ScheduleKind::name);
        assert!(names.is_sorted(), "{names:?}");
        for kind in ScheduleKind::ALL {
            assert_eq!(kind.name().to_uppercase().parse(), Ok(kind));
        }
    }
}
