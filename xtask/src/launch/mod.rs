//! `cargo xtask launch`: one process per rank, started together and ended together.
//!
//! The way through: [`args`] splits the command line, [`signals`] are caught, [`build`] makes the [`program`] (for a GPU only
//! where [`gpu`] sees one), [`text`] writes the default data, one dry run refuses what cannot work, [`ranks`] runs the processes
//! with [`output`] collecting their lines, and [`failure`] says which rank failed first and [`flight`] what their records tell, or
//! [`stopped`] where all were stopped. Whatever is said goes through [`voice`]; [`helper`] owns every process that is no rank.

mod args;
mod build;
mod env;
mod failure;
mod flight;
mod gpu;
mod helper;
mod output;
mod program;
mod progress;
mod ranks;
mod rows;
mod scratch;
mod signals;
mod stopped;
mod text;
mod voice;
mod words;

use std::ffi::OsString;
use std::process::{Command, Output};
use std::time::Duration;

use anyhow::Context;
use pp_comm::Secret;

pub(crate) use args::LaunchArgs;
use env::World;
use failure::Ended;
use program::Program;
use ranks::Job;
use scratch::ScratchDir;
use signals::Signals;
use voice::{Stream, Voice};
pub(crate) use words::own_flags_first;

/// How long the trainer may take to check its configuration, or to say something about itself.
const CHECK_LIMIT: Duration = Duration::from_secs(60);
/// The trainer's own exit code for what it refuses.
const REFUSED: i32 = 2;

/// Runs the job and returns the exit code; when that is not 0, the last line on stderr says why.
pub(crate) fn run(args: &LaunchArgs) -> u8 {
    let writers = voice::start();
    // Caught before there is anything to clean up.
    let signals = Signals::catch();
    let result = match &signals {
        Ok(signals) => prepare_and_run(args, signals, writers.voice()),
        Err(error) => Err(anyhow::anyhow!("{error:#}")),
    };
    let result = writers.end_stdout(result, signals.as_ref().ok());
    writers.end(&result)
}

fn prepare_and_run(args: &LaunchArgs, signals: &Signals, voice: &Voice) -> anyhow::Result<()> {
    if let Some(reason) = args.misplaced() {
        return Err(Ended::refused(reason).into());
    }
    let pp = args.pp().map_err(Ended::refused)?;
    let n_ranks = args
        .n_ranks(pp)
        .ok_or_else(|| Ended::refused("--pp times --dp times --tp is more ranks than can be counted"))?;
    let program = match &args.binary {
        Some(path) => Program::plain(path.clone()),
        None => build::trainer(args.needs(), &args.profile, signals, voice)?,
    };
    if let Some(question) = args.asks_about_trainer() {
        let answer = check(program.command().arg(question), &program, signals)?;
        return accepted(answer, voice);
    }
    let default_data = if args.needs_default_data() { Some(text::write_default(signals, voice)?) } else { None };
    let flags = args.trainer_flags(pp, n_ranks, default_data.as_deref());
    let scratch = ScratchDir::new().context("cannot make a temporary directory")?;
    let secret = Secret::generate().context("cannot make the run's secret")?;
    let world = World { n_ranks, scratch: scratch.path(), secret, flight_dir: args.flight_dir() };

    let checked = dry_run(&program, &flags, &world, signals)?;
    if args.dry_run || !checked.status.success() {
        return accepted(checked, voice);
    }
    let (patience, keeps_flight) = (args.patience(), args.names_flight_dir());
    Job { program: &program, flags: &flags, world, keeps_flight, patience, signals, voice }.run()
}

/// Lets the trainer check the whole configuration once, data included, as rank 0 before any rank starts.
fn dry_run(program: &Program, flags: &[OsString], world: &World<'_>, signals: &Signals) -> anyhow::Result<Output> {
    let mut command = program.command();
    command.args(flags).arg("--dry-run");
    world.tell(&mut command, 0);
    check(&mut command, program, signals)
}

fn check(command: &mut Command, program: &Program, signals: &Signals) -> anyhow::Result<Output> {
    let what = program.name().display().to_string();
    helper::output(command, &what, Some(CHECK_LIMIT), signals).map_err(|error| {
        let is_missing = error.downcast_ref::<std::io::Error>().is_some();
        if is_missing { Ended::refused(format!("{error:#}")).into() } else { error }
    })
}

/// Says what the trainer has said when it ended well, else why it did not.
fn accepted(checked: Output, voice: &Voice) -> anyhow::Result<()> {
    if checked.status.success() {
        voice.say(Stream::Stdout, String::from_utf8_lossy(&checked.stdout).into_owned());
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&checked.stderr);
    if checked.status.code() == Some(REFUSED) {
        let reason = failure::error_line(stderr.lines()).unwrap_or("the trainer refused its arguments");
        // A refuted schedule is shown above the line that says so.
        let shown: Vec<&str> = stderr.lines().take_while(|line| !line.starts_with("error: ")).collect();
        if !shown.is_empty() {
            voice.say(Stream::Stderr, shown.join("\n") + "\n");
        }
        return Err(Ended::refused(reason).into());
    }
    voice.say(Stream::Stderr, stderr.into_owned());
    let code = checked.status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    let reason = format!("the trainer could not check its configuration ({})", checked.status);
    Err(Ended { code, reason }.into())
}
