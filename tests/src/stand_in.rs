//! A script in the trainer's place.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::{Job, Scratch, binaries};

/// An executable script of this name; returns its path.
///
/// # Panics
/// When it cannot be written.
pub fn script(scratch: &Scratch, name: &str, script: &str) -> String {
    let path = scratch.write(name, format!("#!/bin/sh\n{script}\n").as_bytes());
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).expect("a file of ours");
    path
}

/// `cargo xtask launch` of a script that passes the dry run.
pub fn stand_in(scratch: &Scratch, ranks: &str, n_ranks: u32) -> Command {
    let dry_run = r#"case " $* " in *" --dry-run "*) exit 0;; esac"#;
    let path = script(scratch, "stand-in.sh", &format!("{dry_run}\n{ranks}"));
    let mut command = Command::new(&binaries().xtask);
    command.args(["launch", "--mock-data", "--binary", &path, "--pp", &n_ranks.to_string()]);
    command
}

/// Launches a script that passes the dry run.
pub fn launch_stand_in(scratch: &Scratch, ranks: &str, n_ranks: u32) -> Job {
    Job::start(stand_in(scratch, ranks, n_ranks))
}
