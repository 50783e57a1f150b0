//! What a rank finds in its environment.

use std::path::Path;
use std::process::Command;

const RANK: &str = "PP_RANK";
const WORLD_SIZE: &str = "PP_WORLD_SIZE";
/// A path in a fresh directory, where rank 0 publishes its address.
const RENDEZVOUS_FILE: &str = "PP_RENDEZVOUS_FILE";
/// The rank ends when its standard input does, which is when the launcher is gone, however that came about.
const STDIN_GUARD: &str = "PP_STDIN_GUARD";

/// All ranks, and where they meet.
pub(crate) struct World<'a> {
    pub(crate) n_ranks: usize,
    pub(crate) scratch: &'a Path,
}

impl World<'_> {
    /// Tells a process that it is `rank`, and to watch its standard input.
    pub(crate) fn tell(&self, command: &mut Command, rank: usize) {
        command
            .env(RANK, rank.to_string())
            .env(WORLD_SIZE, self.n_ranks.to_string())
            .env(RENDEZVOUS_FILE, self.scratch.join("rank0"))
            .env(STDIN_GUARD, "1");
    }
}
