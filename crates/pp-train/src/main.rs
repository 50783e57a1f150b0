//! The trainer's command line: arguments, exit codes, one clear last line when something fails.

use std::io::{self, Read, Write};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use pp_train::args::{Args, one_line};
use pp_train::{Environment, Failure, Flight, Stop, TrainConfig, run};

const FAILED: u8 = 1;
const INVALID: u8 = 2;
const LOST: u8 = 3;

fn main() -> ExitCode {
    let flight = Flight::new(end_stuck);
    end_on_panic(flight.clone());
    if std::env::var("PP_STDIN_GUARD").is_ok_and(|guard| guard == "1") {
        end_with_launcher();
    }
    let args = match Args::try_parse() {
        Ok(args) => args,
        // Not an error: what --help and --version print.
        Err(told) if !told.use_stderr() => {
            return match told.print().and_then(|()| io::stdout().flush()) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => fail(FAILED, &format!("cannot write to standard output: {error}")),
            };
        }
        Err(error) => return fail(INVALID, &one_line(&error)),
    };
    match start(&args, &flight) {
        Ok(code) => code,
        Err(error) => fail(code_of(&error), &format!("{error:#}{}", flight.told())),
    }
}

fn start(args: &Args, flight: &Flight) -> Result<ExitCode> {
    let stop = Stop::on_signals().context("cannot listen for signals")?;
    let config = TrainConfig::within(args, &Environment::of_process())?;
    if !config.dry_run() {
        rayon::ThreadPoolBuilder::new()
            .num_threads(config.threads())
            .build_global()
            .with_context(|| format!("cannot start --threads {}", config.threads()))?;
    }
    Ok(match run(&config, &stop, flight)? {
        None => ExitCode::SUCCESS,
        Some(stopped) => {
            let _ = io::stderr().write_all(format!("{stopped}\n").as_bytes());
            ExitCode::from(stopped.by.exit_code())
        }
    })
}

fn code_of(error: &anyhow::Error) -> u8 {
    match Failure::of(error) {
        Failure::Lost => LOST,
        Failure::Invalid => INVALID,
        Failure::Other => FAILED,
    }
}

/// The last line on standard error. What a refusal has to show is shown above it as it stands: a refuted schedule is drawn.
fn fail(code: u8, message: &str) -> ExitCode {
    match message.split_once('\n') {
        Some((first, _)) if code == INVALID => {
            let _ = io::stderr().write_all(format!("{message}\n").as_bytes());
            last_line(&format!("{}; it is shown above", first.trim_end_matches([':', ' '])));
        }
        _ => last_line(message),
    }
    ExitCode::from(code)
}

/// Nobody may be there to read it any more; the exit code must come all the same.
fn last_line(message: &str) {
    let lines: Vec<&str> = message.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let _ = io::stderr().write_all(format!("error: {}\n", lines.join(" ")).as_bytes());
}

/// A panic on any thread ends the process: half a rank would leave the others waiting.
fn end_on_panic(flight: Flight) {
    std::panic::set_hook(Box::new(move |panic| {
        let said = format!("internal fault: {panic}");
        flight.panicked(&said);
        last_line(&format!("{said}{}", flight.told()));
        std::process::exit(i32::from(FAILED));
    }));
}

/// The end of a rank whose training thread does not come back from a computation to hear that another rank is lost.
fn end_stuck(reason: &str) {
    last_line(reason);
    std::process::exit(i32::from(LOST));
}

/// When the launcher is gone, so is the reason to run. It holds the other end of standard input, which closes with it; a
/// process that is stopped cannot see that, so the system is asked to kill it too.
fn end_with_launcher() {
    // Where it cannot be asked, standard input is what there is.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    std::thread::spawn(|| {
        let mut ignored = [0; 256];
        let mut stdin = io::stdin().lock();
        while stdin.read(&mut ignored).is_ok_and(|n| n > 0) {}
        last_line("standard input is closed (PP_STDIN_GUARD): the launcher is gone");
        std::process::exit(i32::from(LOST));
    });
}
