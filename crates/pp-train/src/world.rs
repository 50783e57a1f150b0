//! Where this process stands: alone, or one rank of several.

use std::path::PathBuf;

use crate::args::Args;
use crate::invalid::{Invalid, refuse};
use crate::plan::Plan;

/// This process among the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// There are no others.
    Alone,
    /// One rank of several, which find each other through a file.
    Ranked {
        /// This rank.
        rank: u32,
        /// All ranks.
        world_size: u32,
        /// Where rank 0 writes its address.
        rendezvous_file: PathBuf,
    },
}

impl Place {
    /// By the flags, or the environment.
    ///
    /// # Errors
    /// [`Invalid`] when they contradict each other or the plan. A dry run outside a world starts nothing and may be of any size.
    pub(crate) fn new(args: &Args, plan: &Plan) -> Result<Self, Invalid> {
        let (n_ranks, asked) = (plan.n_ranks(), plan.ranks_text());
        let disagrees = |world_size| {
            format!("world size {world_size} disagrees with {asked}; start it through `cargo xtask launch`")
        };
        if let Some(world_size) = args.world_size.filter(|&world_size| world_size != n_ranks) {
            refuse!("{}", disagrees(world_size));
        }
        let place = match (args.rank, args.world_size, &args.rendezvous_file) {
            (None, None, None) | (None, Some(1), None) | (Some(0), Some(1), _) => Self::Alone,
            (Some(rank), Some(world_size), Some(file)) => {
                if rank >= world_size {
                    refuse!(
                        "--rank {rank} (PP_RANK) is not below --world-size {world_size} (PP_WORLD_SIZE); the last rank is {}",
                        world_size - 1
                    );
                }
                Self::Ranked { rank, world_size, rendezvous_file: file.clone() }
            }
            (rank, world_size, file) => {
                let given = [
                    ("--rank (PP_RANK)", rank.is_some()),
                    ("--world-size (PP_WORLD_SIZE)", world_size.is_some()),
                    ("--rendezvous-file (PP_RENDEZVOUS_FILE)", file.is_some()),
                ];
                let list = |there| {
                    let names: Vec<&str> =
                        given.iter().filter(|(_, is_there)| *is_there == there).map(|(name, _)| *name).collect();
                    names.join(" and ")
                };
                refuse!("{} given without {}; a world needs all three", list(true), list(false));
            }
        };
        if n_ranks != place.world_size() && !args.dry_run {
            refuse!("{}", disagrees(place.world_size()));
        }
        Ok(place)
    }

    /// This rank.
    pub fn rank(&self) -> u32 {
        match self {
            Self::Alone => 0,
            Self::Ranked { rank, .. } => *rank,
        }
    }

    /// All ranks.
    pub fn world_size(&self) -> u32 {
        match self {
            Self::Alone => 1,
            Self::Ranked { world_size, .. } => *world_size,
        }
    }
}
