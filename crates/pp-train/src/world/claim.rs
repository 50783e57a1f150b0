//! What one source says of a process's place.

use super::environment::{Number, leave_out};
use crate::invalid::{Invalid, refuse};

/// Who may have started a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The flags of this program, or the variables in their place: `cargo xtask launch`, or a script.
    Flags,
    /// torchrun, or whoever sets its variables.
    Torchrun,
    /// Slurm's `srun`.
    Slurm,
    /// OpenMPI's `mpirun`.
    OpenMpi,
    /// Nobody: the process is alone.
    Single,
}

impl Source {
    /// All, the first that has something to say first.
    pub(super) const ALL: [Self; 5] = [Self::Flags, Self::Torchrun, Self::Slurm, Self::OpenMpi, Self::Single];

    /// As it is typed after `--launcher`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Flags => "flags",
            Self::Torchrun => "torchrun",
            Self::Slurm => "slurm",
            Self::OpenMpi => "openmpi",
            Self::Single => "single",
        }
    }
}

/// A process among those of its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Local {
    pub(crate) rank: u32,
    /// How many there are; not every source says it.
    pub(crate) size: Option<u32>,
}

/// Where the ranks can meet by what a source says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ground {
    /// All are on this host.
    OneHost,
    /// Rank 0 is on this host, and can listen on this port by a rule of the source.
    Hosts { host: String, port: u16, rule: String },
    /// It does not say.
    Unsaid,
}

/// What a source says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) source: Source,
    pub(super) rank: Number,
    pub(super) world: Number,
    pub(super) local: Option<Local>,
    /// How many processes of another launcher each started some of the ranks, where the source says it.
    pub(super) agents: Option<Number>,
    /// On how many hosts the ranks are, where the source says it.
    pub(super) hosts: Option<u32>,
    pub(super) ground: Ground,
    /// Words that tell the run from any other, the same for all its ranks; none where the source has none.
    pub(super) run: Vec<String>,
}

impl Claim {
    /// Checks what holds for every source.
    pub(super) fn checked(self) -> Result<Self, Invalid> {
        let (rank, world) = (self.rank, self.world);
        if world.value == 0 {
            refuse!("{world}, but a world has at least 1 rank; {}", leave_out("or start at least 1"));
        }
        if rank.value >= world.value {
            refuse!("{rank} is not below {world}; the last rank is {}", world.value - 1);
        }
        if let Some(Local { rank: local, size }) = self.local
            && let size = size.unwrap_or(world.value)
            && (local >= size || size > world.value)
        {
            refuse!(
                "{}: local rank {local} of {size} on this host cannot be in a world with {world}; {}",
                self.source.name(),
                leave_out("or mend it where the process is started")
            );
        }
        Ok(self)
    }

    /// Both say the same.
    pub(super) fn agrees_with(&self, other: &Self) -> bool {
        (self.rank.value, self.world.value) == (other.rank.value, other.world.value)
    }
}

/// The rank and the world of a source of which something was found; none when nothing was.
pub(super) fn both(
    source: Source,
    rank: Option<Number>,
    world: Option<Number>,
    names: [&str; 2],
) -> Result<Option<(Number, Number)>, Invalid> {
    match (rank, world) {
        (None, None) => Ok(None),
        (Some(rank), Some(world)) => Ok(Some((rank, world))),
        (Some(there), None) => refuse!("{}", missing(source, &there.to_string(), names[1])),
        (None, Some(there)) => refuse!("{}", missing(source, &there.to_string(), names[0])),
    }
}

/// What is said of a source of which a part is missing.
pub(super) fn missing(source: Source, there: &str, missing: &str) -> String {
    format!("{}: {there} is given without {missing}; {}", source.name(), leave_out("or give both"))
}
