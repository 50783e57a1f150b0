//! Runs that are asked to stop: the step in progress is finished, all ranks stop after the same one, and nothing is left of
//! them; asked twice, they end at once. And ranks whose launcher is gone.
#![cfg(target_os = "linux")]

use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use workspace_tests::job::TINY;
use workspace_tests::stand_in::launch_stand_in;
use workspace_tests::{Finished, Job, Scratch, binaries};

/// Generous: the machine may be busy with other tests.
const LONG: Duration = Duration::from_secs(120);
const SOON: Duration = Duration::from_secs(20);
/// What is said to happen at once.
const AT_ONCE: Duration = Duration::from_secs(5);

const ASKS: [(Signal, i32, &str, &str); 2] =
    [(Signal::TERM, 143, "SIGTERM", "signal 15 (SIGTERM)"), (Signal::INT, 130, "SIGINT", "signal 2 (SIGINT)")];

/// More steps than anybody waits for.
const ENDLESS: &str = "--train-iters=1000000";
/// A model whose step takes a good part of a second on any machine.
const SLOW: [&str; 9] = [
    "--mock-data",
    "--num-layers=8",
    "--hidden-size=128",
    "--num-heads=4",
    "--seq-length=64",
    "--micro-batch-size=4",
    "--microbatches=12",
    "--threads=1",
    "--timeout=60",
];

/// A job in the midst of its steps, with its metrics.
fn training(pp: &str, metrics: &str) -> Job {
    let job = Job::launch(&[&TINY[..], &[pp, ENDLESS, "--metrics", metrics]].concat());
    job.wait_for_line("iteration 3/", LONG);
    job
}

/// The step after which each rank says that it stopped, by rank.
fn stopped_after(finished: &Finished, by: &str, n_ranks: usize) -> u32 {
    let words = |rank: usize| format!("[rank {rank}] stopped by {by} after iteration ");
    let after = |rank: usize| {
        let line = finished.stderr.iter().find_map(|line| line.strip_prefix(&words(rank)));
        let line = line.unwrap_or_else(|| panic!("rank {rank} does not say where it stopped\n{finished}"));
        line.strip_suffix(" of 1000000").and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{line}"))
    };
    let steps: Vec<u32> = (0..n_ranks).map(after).collect();
    assert!(steps.iter().all(|step| *step == steps[0] && *step >= 3), "{steps:?}\n{finished}");
    steps[0]
}

/// The metrics have every step up to the last, and the line that closes them.
fn are_whole(metrics: &str, by: &str, last: u32) {
    let text = std::fs::read_to_string(metrics).expect("rank 0 wrote the metrics");
    assert!(text.ends_with('\n'));
    let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let steps: Vec<u64> = lines.iter().filter_map(|line| line["iteration"].as_u64()).collect();
    assert_eq!(steps, (1..=u64::from(last)).collect::<Vec<_>>());
    let end = lines.last().expect("it has lines");
    assert_eq!((end["final"].as_bool(), end["stopped_by"].as_str()), (Some(true), Some(by)), "{end}");
    assert!(end["validation_loss"].is_null() && end["weights_fingerprint"].is_string(), "{end}");
}

fn nothing_is_left(job: &Job) {
    assert!(job.processes().is_empty(), "{:?}", job.processes());
    assert_eq!(job.left_behind(), [""; 0]);
}

#[test]
fn a_launcher_that_is_asked_to_stop_stops_all_ranks_after_the_same_step() {
    for (signal, code, by, name) in ASKS {
        let scratch = Scratch::new();
        let metrics = scratch.file("metrics.jsonl");
        let mut job = training("--pp=4", &metrics);
        job.signal(signal);
        let finished = job.wait(SOON);
        assert_eq!(finished.code, Some(code), "{finished}");
        let last = stopped_after(&finished, by, 4);
        let expected = format!("error: interrupted by {name}; all ranks stopped after iteration {last} of 1000000");
        assert_eq!(finished.last_word(), expected, "{finished}");
        let summary = format!("[rank 0] stopped by {by} after iteration {last} of 1000000");
        assert!(finished.stdout.contains(&summary), "{finished}");
        are_whole(&metrics, by, last);
        nothing_is_left(&job);
    }
}

#[test]
fn a_rank_that_is_asked_to_stop_stops_them_all() {
    for ((signal, code, by, _), rank) in ASKS.into_iter().zip([1, 0]) {
        let scratch = Scratch::new();
        let metrics = scratch.file("metrics.jsonl");
        let mut job = training("--pp=2", &metrics);
        job.signal_rank(rank, signal);
        let finished = job.wait(SOON);
        assert_eq!(finished.code, Some(code), "{finished}");
        let last = stopped_after(&finished, by, 2);
        let expected = format!("error: stopped by {by} after iteration {last} of 1000000");
        assert_eq!(finished.last_word(), expected, "{finished}");
        are_whole(&metrics, by, last);
        nothing_is_left(&job);
    }
}

/// A terminal signals the whole group; `timeout` signals its command and then the group.
#[test]
fn a_signal_that_comes_by_two_ways_counts_once() {
    let scratch = Scratch::new();
    let metrics = scratch.file("metrics.jsonl");
    let mut job = training("--pp=2", &metrics);
    job.signal(Signal::INT);
    job.signal_group(Signal::INT);
    let finished = job.wait(SOON);
    assert_eq!(finished.code, Some(130), "{finished}");
    are_whole(&metrics, "SIGINT", stopped_after(&finished, "SIGINT", 2));
    nothing_is_left(&job);
}

#[test]
fn a_launcher_that_is_asked_twice_does_not_wait() {
    for (signal, code, _, name) in ASKS {
        let scratch = Scratch::new();
        // Ranks that take their time.
        let script = "trap '' TERM INT; echo started; while :; do sleep 0.1; done";
        let mut job = launch_stand_in(&scratch, script, 2);
        job.wait_for_line("[rank 1] started", SOON);
        job.wait_for_line("[rank 0] started", SOON);
        job.signal(signal);
        std::thread::sleep(Duration::from_secs(3));
        assert!(job.processes().len() >= 3, "a step takes as long as it takes: {:?}", job.processes());
        job.signal(signal);
        let finished = job.wait(AT_ONCE);
        assert_eq!(finished.code, Some(code), "{finished}");
        assert_eq!(finished.last_word(), format!("error: interrupted by {name}; all ranks were stopped"), "{finished}");
        assert!(job.gone_within(AT_ONCE) && job.left_behind().is_empty(), "{:?}", job.processes());
    }
}

#[test]
fn ranks_that_do_not_stop_are_waited_for_no_longer_than_the_timeout() {
    let scratch = Scratch::new();
    let script = "trap '' TERM; echo started; while :; do sleep 0.1; done";
    let mut command = workspace_tests::stand_in::stand_in(&scratch, script, 1);
    command.arg("--timeout=1");
    let mut job = Job::start(command);
    job.wait_for_line("[rank 0] started", SOON);
    let start = Instant::now();
    job.signal(Signal::TERM);
    let finished = job.wait(SOON);
    assert!(start.elapsed() >= Duration::from_secs(1), "{finished}");
    assert_eq!(finished.code, Some(143), "{finished}");
}

#[test]
fn a_rank_that_is_asked_twice_ends_at_once() {
    let mut job = Job::launch(&[&SLOW[..], &["--pp=2", ENDLESS]].concat());
    job.wait_for_line("iteration 1/", LONG);
    job.signal_rank(1, Signal::TERM);
    std::thread::sleep(Duration::from_millis(100));
    job.signal_rank(1, Signal::TERM);
    let finished = job.wait(SOON);
    assert_eq!(finished.code, Some(143), "{finished}");
    assert_eq!(finished.last_word(), "error: rank 1 failed with exit code 143: ended at once by SIGTERM", "{finished}");
    assert!(job.processes().is_empty(), "{:?}", job.processes());
    assert_eq!(job.left_behind(), [""; 0]);
}

/// The trainer without a launcher.
fn trainer(flags: &[&str]) -> Job {
    let mut command = Command::new(&binaries().trainer);
    command.args(flags);
    Job::start(command)
}

#[test]
fn a_process_alone_stops_after_its_step() {
    for (signal, code, by, _) in ASKS {
        let mut job = trainer(&[&TINY[..], &[ENDLESS]].concat());
        job.wait_for_line("iteration 3/", LONG);
        job.signal(signal);
        let finished = job.wait(SOON);
        assert_eq!(finished.code, Some(code), "{finished}");
        let said = format!("stopped by {by} after iteration ");
        assert!(finished.last_word().starts_with(&said), "{finished}");
        assert!(finished.stdout.iter().any(|line| line.starts_with(&said)), "{finished}");
    }
}

#[test]
fn a_rank_that_waits_for_others_has_no_step_to_finish() {
    let scratch = Scratch::new();
    let meeting = scratch.file("rank0");
    let world = ["--pp=2", "--rank=1", "--world-size=2", "--rendezvous-file", &meeting];
    let mut job = trainer(&[&TINY[..], &world].concat());
    job.wait_for_processes(1, SOON);
    std::thread::sleep(Duration::from_secs(1));
    job.signal(Signal::TERM);
    let finished = job.wait(AT_ONCE);
    assert_eq!(finished.code, Some(143), "{finished}");
    assert_eq!(finished.last_word(), "error: ended at once by SIGTERM", "{finished}");
}

#[test]
fn a_killed_launcher_takes_a_stopped_rank_with_it() {
    for stopped in [&[1][..], &[0, 1, 2, 3]] {
        let mut job = Job::launch(&[&TINY[..], &["--pp=4", ENDLESS]].concat());
        job.wait_for_line("iteration 3/", LONG);
        for rank in stopped {
            job.signal_rank(*rank, Signal::STOP);
        }
        job.signal(Signal::KILL);
        assert!(job.gone_within(Duration::from_secs(5)), "left: {:?}", job.processes());
        assert_eq!(job.wait(SOON).signal, Some(9));
    }
}
