//! Jobs whose output nobody reads, or that cannot be written, and processes of the launcher that are no ranks: the
//! launcher supervises all the same.
#![cfg(target_os = "linux")]

use std::fs::File;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use workspace_tests::stand_in::{script, stand_in};
use workspace_tests::{Job, Scratch, binaries};

const LONG: Duration = Duration::from_secs(120);
const SOON: Duration = Duration::from_secs(15);

/// Lines without end.
const CHATTER: &str = "while :; do echo 'a line that is as long as many others are'; done";

fn full() -> Stdio {
    File::options().write(true).open("/dev/full").expect("every Linux has it").into()
}

#[test]
fn a_reader_that_does_not_read_holds_up_no_signal() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let scratch = Scratch::new();
        let (_unread, pipe) = std::io::pipe().expect("a pipe");
        let mut job = Job::start_with_stdout(stand_in(&scratch, CHATTER, 2), pipe.into());
        job.wait_for_processes(3, LONG);
        // Long enough for the pipe to be full.
        std::thread::sleep(Duration::from_millis(500));
        job.signal(signal);
        let finished = job.wait(SOON);
        assert_eq!(finished.code, Some(code), "{finished}");
        assert!(finished.last_word().starts_with("error: interrupted by signal"), "{finished}");
        assert!(job.processes().is_empty() && job.left_behind().is_empty(), "{:?}", job.processes());
    }
}

#[test]
fn a_reader_that_does_not_read_holds_up_no_failure() {
    let scratch = Scratch::new();
    let ranks = format!("case $PP_RANK in 1) sleep 0.5; exit 1;; esac; {CHATTER}");
    let (_unread, pipe) = std::io::pipe().expect("a pipe");
    let mut job = Job::start_with_stdout(stand_in(&scratch, &ranks, 2), pipe.into());
    let finished = job.wait(SOON);
    assert_eq!(finished.code, Some(1), "{finished}");
    assert!(finished.last_word().starts_with("error: rank 1 failed with exit code 1"), "{finished}");
}

#[test]
fn a_late_reader_gets_every_line() {
    let scratch = Scratch::new();
    let ranks =
        "i=0; while [ $i -lt 5000 ]; do i=$((i+1)); echo \"a line that is as long as many others are $i\"; done";
    let (mut late, pipe) = std::io::pipe().expect("a pipe");
    let mut job = Job::start_with_stdout(stand_in(&scratch, ranks, 1), pipe.into());
    std::thread::sleep(Duration::from_secs(4));
    let mut text = String::new();
    std::io::Read::read_to_string(&mut late, &mut text).expect("text");
    job.wait(SOON).expect_success();
    assert_eq!(text.lines().count(), 5000);
}

#[test]
fn output_that_cannot_be_written_ends_the_job() {
    let scratch = Scratch::new();
    let jobs = [stand_in(&scratch, CHATTER, 2), stand_in(&scratch, "echo one line", 1)];
    for command in jobs {
        let mut job = Job::start_with_stdout(command, full());
        let finished = job.wait(SOON);
        assert_eq!(finished.code, Some(1), "{finished}");
        let expected = "error: cannot write the output: No space left on device (os error 28)";
        assert_eq!(finished.stderr, [expected], "{finished}");
        assert!(job.processes().is_empty());
    }
    let scratch = Scratch::new();
    let trainer = script(&scratch, "trainer.sh", "echo tables");
    let mut command = Command::new(&binaries().xtask);
    command.args(["launch", "--mock-data", "--dry-run", "--binary", &trainer]);
    let finished = Job::start_with_stdout(command, full()).wait(SOON);
    assert_eq!((finished.code, finished.stderr.len()), (Some(1), 1), "{finished}");
}

#[test]
fn a_reader_that_is_gone_ends_the_job() {
    let scratch = Scratch::new();
    let (reader, pipe) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut job = Job::start_with_stdout(stand_in(&scratch, CHATTER, 2), pipe.into());
    let finished = job.wait(SOON);
    assert_eq!(finished.code, Some(1), "{finished}");
    assert_eq!(finished.stderr, ["error: the reader of the output is gone"], "{finished}");
}

#[test]
fn what_prepares_a_job_ends_with_the_launcher() {
    let scratch = Scratch::new();
    let stuck = script(&scratch, "stuck.sh", "sleep 1000 & wait");
    let launch = |flags: &[&str]| {
        let mut command = Command::new(&binaries().xtask);
        command.arg("launch").args(flags);
        command
    };
    let dry_run = launch(&["--mock-data", "--binary", &stuck]);
    let mut build = launch(&["--mock-data"]);
    build.env("CARGO", &stuck);
    let mut metadata = launch(&["--binary", &stuck]);
    metadata.env("CARGO", &stuck);
    let mut rustc = launch(&["--binary", &stuck]);
    rustc.env("RUSTC", &stuck);
    for command in [dry_run, build, metadata, rustc] {
        let name = format!("{command:?}");
        let mut job = Job::start(command);
        // The launcher, the script and its child.
        job.wait_for_processes(3, LONG);
        std::thread::sleep(Duration::from_millis(100));
        job.signal(Signal::TERM);
        let finished = job.wait(SOON);
        assert_eq!(finished.code, Some(143), "{name}\n{finished}");
        let expected = "error: interrupted by signal 15 (SIGTERM) before any rank was started";
        assert_eq!(finished.last_word(), expected, "{name}\n{finished}");
        assert!(job.gone_within(SOON) && job.left_behind().is_empty(), "{name}: {:?}", job.processes());
    }
}

#[test]
fn a_dry_run_is_told_the_world_and_ends_with_a_killed_launcher() {
    let scratch = Scratch::new();
    // As a trainer does: it lives for as long as its standard input is open.
    let trainer =
        script(&scratch, "trainer.sh", "echo \"$PP_RANK/$PP_WORLD_SIZE/$PP_STDIN_GUARD\" >\"$TOLD\"; read line");
    let mut command = Command::new(&binaries().xtask);
    command.args(["launch", "--mock-data", "--pp", "3", "--binary", &trainer]).env("TOLD", scratch.file("told"));
    let job = Job::start(command);
    job.wait_for_processes(2, LONG);
    job.signal(Signal::KILL);
    assert!(job.gone_within(SOON), "{:?}", job.processes());
    assert_eq!(std::fs::read_to_string(scratch.file("told")).expect("it was told"), "0/3/1\n");
}

#[test]
fn questions_about_the_trainer_start_nothing() {
    let scratch = Scratch::new();
    let trainer = script(&scratch, "trainer.sh", "echo \"asked $*, rank ${PP_RANK-none}\"");
    for (flags, question) in [(&["--version"][..], "--version"), (&["--pp", "2", "--", "--help"], "--help")] {
        let mut command = Command::new(&binaries().xtask);
        command.args(["launch", "--binary", &trainer]).args(flags);
        let finished = Job::start(command).wait(LONG).expect_success();
        assert_eq!(finished.stdout, [format!("asked {question}, rank none")], "{finished}");
    }
}
