//! `cargo xtask launch`: one process per rank, started together and ended together.
//!
//! The way through: [`args`] splits the command line, [`build`] makes the trainer, [`text`] writes the default data,
//! one dry run refuses what cannot work, [`ranks`] runs the processes with [`output`] collecting their lines, and
//! [`failure`] says which rank failed first.

mod args;
mod build;
mod failure;
mod output;
mod progress;
mod ranks;
mod scratch;
mod text;

use std::path::Path;
use std::process::{Command, Output, Stdio};

use anyhow::Context;

pub(crate) use args::{LaunchArgs, own_flags_first};
use failure::{INTERRUPTED_BASE, signal_name};
use ranks::{Ending, Job};

/// Bad arguments, or a configuration that cannot run.
const REFUSED: u8 = 2;

/// What a rank finds in its environment.
pub(crate) mod env {
    pub(crate) const RANK: &str = "PP_RANK";
    pub(crate) const WORLD_SIZE: &str = "PP_WORLD_SIZE";
    /// A path in a fresh directory, where rank 0 publishes its address.
    pub(crate) const RENDEZVOUS_FILE: &str = "PP_RENDEZVOUS_FILE";
    /// The rank ends when its standard input does, which is when the launcher is gone, however that came about.
    pub(crate) const STDIN_GUARD: &str = "PP_STDIN_GUARD";

    pub(crate) const ALL: [&str; 4] = [RANK, WORLD_SIZE, RENDEZVOUS_FILE, STDIN_GUARD];
}

/// Runs the job and returns the exit code; when that is not 0, the last line on stderr says why.
pub(crate) fn run(args: &LaunchArgs) -> anyhow::Result<u8> {
    let Some(n_ranks) = args.n_ranks() else {
        return Ok(refuse("--pp times --dp times --tp is more ranks than can be counted"));
    };
    let binary = match &args.binary {
        Some(path) => path.clone(),
        None => match build::trainer(&args.profile)? {
            Some(path) => path,
            // cargo has said why.
            None => anyhow::bail!("pp-train does not build with profile {}", args.profile),
        },
    };
    let default_data = if args.needs_default_data() { Some(text::write_default()?) } else { None };
    let flags = args.trainer_flags(n_ranks, default_data.as_deref());

    let checked = match dry_run(&binary, &flags) {
        Ok(checked) => checked,
        Err(error) => return Ok(refuse(&format!("{error:#}"))),
    };
    if let Some(code) = refused(&checked, n_ranks) {
        return Ok(code);
    }
    if args.dry_run {
        print!("{}", String::from_utf8_lossy(&checked.stdout));
        return Ok(0);
    }
    let ending = Job { binary: &binary, flags: &flags, n_ranks }.run()?;
    Ok(last_word(&ending, n_ranks))
}

/// Lets the trainer check the whole configuration once, data included, before any rank starts.
fn dry_run(binary: &Path, flags: &[std::ffi::OsString]) -> anyhow::Result<Output> {
    let mut command = Command::new(binary);
    command.args(flags).arg("--dry-run").stdin(Stdio::null());
    for name in env::ALL {
        command.env_remove(name);
    }
    command.output().with_context(|| format!("cannot start {}", binary.display()))
}

/// The exit code, with its reason said, when the dry run did not pass.
fn refused(checked: &Output, n_ranks: usize) -> Option<u8> {
    if checked.status.success() {
        // The trainer refuses a size of zero itself; a stand-in given by `--binary` may not.
        return (n_ranks == 0).then(|| refuse("--pp, --dp and --tp must each be at least 1"));
    }
    let stderr = String::from_utf8_lossy(&checked.stderr);
    match checked.status.code().and_then(|code| u8::try_from(code).ok()) {
        Some(REFUSED) => {
            let reason = failure::error_line(stderr.lines()).unwrap_or("the trainer refused its arguments");
            Some(refuse(reason))
        }
        code => {
            eprint!("{stderr}");
            eprintln!("error: the trainer could not check its configuration ({})", checked.status);
            Some(code.unwrap_or(1))
        }
    }
}

fn refuse(reason: &str) -> u8 {
    eprintln!("error: {reason}");
    REFUSED
}

/// Says how the job ended, if not well, and returns the exit code.
fn last_word(ending: &Ending, n_ranks: usize) -> u8 {
    if let Some(signal) = ending.interrupted {
        eprintln!("error: interrupted by {}; all ranks were stopped", signal_name(signal));
        return u8::try_from(INTERRUPTED_BASE + signal).unwrap_or(1);
    }
    match failure::first(&ending.ranks) {
        Some(first) => {
            eprintln!("error: {}", first.describe(n_ranks));
            first.exit_code()
        }
        None if ending.output_closed => {
            eprintln!("error: the reader of the output is gone; all ranks were stopped");
            1
        }
        None => 0,
    }
}
