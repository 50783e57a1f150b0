//! This program's own flags, and the variables that clap reads in their place.

use super::claim::{Claim, Ground, Local, Source};
use super::environment::Number;
use crate::args::Args;
use crate::invalid::{Invalid, refuse};

const RANK: &str = "--rank";
const WORLD_SIZE: &str = "--world-size";

/// What the flags say; none where neither rank nor world is given.
pub(super) fn claim(args: &Args) -> Result<Option<Claim>, Invalid> {
    let number = |name, value: Option<u32>| value.map(|value| Number { name, value });
    let (rank, world) = match (number(RANK, args.rank), number(WORLD_SIZE, args.world_size)) {
        (Some(rank), Some(world)) => (rank, world),
        // A world of one says which rank it is.
        (None, Some(world)) if world.value == 1 => (Number { name: RANK, value: 0 }, world),
        (None, None) => match args.local_rank {
            None => return Ok(None),
            Some(local) => refuse!(
                "--local-rank {local} (PP_LOCAL_RANK) is given without --rank (PP_RANK) and --world-size (PP_WORLD_SIZE); give all, \
                 or leave it out where a launcher says it"
            ),
        },
        (rank, world) => {
            let given = [
                ("--rank (PP_RANK)", rank.is_some()),
                ("--world-size (PP_WORLD_SIZE)", world.is_some()),
                ("--rendezvous-file (PP_RENDEZVOUS_FILE)", args.rendezvous_file.is_some()),
            ];
            let list = |there| {
                let names = given.iter().filter(|(_, is_there)| *is_there == there).map(|(name, _)| *name);
                names.collect::<Vec<_>>().join(" and ")
            };
            refuse!(
                "{} given without {}; a world needs all three, or --rendezvous HOST:PORT in the file's place",
                list(true),
                list(false)
            );
        }
    };
    // Ranks that meet through a file on loopback are all on this host.
    let one_host = args.rendezvous_file.is_some() && args.bind.is_none();
    let local = match (args.local_rank, one_host) {
        (Some(rank), _) => Some(Local { rank, size: one_host.then_some(world.value) }),
        (None, true) => Some(Local { rank: rank.value, size: Some(world.value) }),
        (None, false) => None,
    };
    let hosts = one_host.then_some(1);
    let (ground, run) = (Ground::Unsaid, Vec::new());
    Claim { source: Source::Flags, rank, world, local, agents: None, hosts, ground, run }.checked().map(Some)
}
