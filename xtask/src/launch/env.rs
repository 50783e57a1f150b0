//! What a rank finds in its environment.

use std::path::{Path, PathBuf};
use std::process::Command;

use pp_comm::Secret;

const RANK: &str = "PP_RANK";
const WORLD_SIZE: &str = "PP_WORLD_SIZE";
/// The same on this host: which GPU is the rank's follows from it.
const LOCAL_RANK: &str = "PP_LOCAL_RANK";
/// A path in a fresh directory, where rank 0 publishes its address.
const RENDEZVOUS_FILE: &str = "PP_RENDEZVOUS_FILE";
/// The rank ends when its standard input does, which is when the launcher is gone, however that came about.
const STDIN_GUARD: &str = "PP_STDIN_GUARD";
/// Whom a rank is to believe, whatever other launchers have left in the environment.
const LAUNCHER: &str = "PP_LAUNCHER";
/// What the ranks know and nobody else. Other users can read a command line, but not this.
const SECRET: &str = "PP_SECRET";
/// Where ranks write what they did last when something goes wrong.
const FLIGHT_DIR: &str = "PP_FLIGHT_DIR";
/// What would contradict the above, or have no meaning beside it.
const OTHERS: [&str; 2] = ["PP_RENDEZVOUS", "PP_SECRET_FILE"];

/// All ranks, and where they meet.
pub(crate) struct World<'a> {
    pub(crate) n_ranks: usize,
    pub(crate) scratch: &'a Path,
    pub(crate) secret: Secret,
    /// Made by whoever has something to write there.
    pub(crate) flight_dir: PathBuf,
}

impl World<'_> {
    /// Tells a process that it is `rank`, and to watch its standard input.
    pub(crate) fn tell(&self, command: &mut Command, rank: usize) {
        command
            .env(RANK, rank.to_string())
            .env(WORLD_SIZE, self.n_ranks.to_string())
            .env(LOCAL_RANK, rank.to_string())
            .env(RENDEZVOUS_FILE, self.scratch.join("rank0"))
            .env(STDIN_GUARD, "1")
            .env(LAUNCHER, "flags")
            .env(SECRET, self.secret.to_hex())
            .env(FLIGHT_DIR, &self.flight_dir);
        for other in OTHERS {
            command.env_remove(other);
        }
    }
}
