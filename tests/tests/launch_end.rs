//! Jobs that do not go well: whatever ends them, no process is left and the last line says why.
#![cfg(target_os = "linux")]

use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use workspace_tests::job::TINY;
use workspace_tests::stand_in::{launch_stand_in, stand_in};
use workspace_tests::{Job, Scratch, processes};

const LONG: Duration = Duration::from_secs(120);
/// What a user waits for after a rank has died.
const SOON: Duration = Duration::from_secs(10);

/// A job in the midst of more steps than anybody waits for.
fn training(flags: &[&str]) -> Job {
    let job = Job::launch(&[&TINY, flags, &["--train-iters", "1000000"]].concat());
    job.wait_for_line("iteration 3/", LONG);
    job
}

#[test]
fn a_killed_rank_ends_the_job_and_is_named() {
    for (flags, n_ranks) in [(&["--pp=2", "--vp=2"][..], 2), (&["--pp=4"], 4)] {
        let mut job = training(flags);
        assert_eq!(job.processes().len(), n_ranks + 1, "the ranks and the launcher");
        let start = Instant::now();
        job.signal_rank(1, Signal::KILL);
        let finished = job.wait(SOON);
        assert!(start.elapsed() < SOON);
        assert_eq!(finished.code, Some(3), "{finished}");
        let expected = "error: rank 1 was killed by signal 9 (SIGKILL); the other ranks were stopped";
        assert_eq!(finished.last_word(), expected, "{finished}");
        assert!(job.processes().is_empty(), "{:?}", job.processes());
        assert_eq!(job.left_behind(), [""; 0]);
        let records = job.flight_records();
        assert!(records.len() == 1 && finished.stderr.iter().any(|line| line.contains(&records[0])), "{records:?}");
    }
}

#[test]
fn a_killed_launcher_takes_its_ranks_with_it() {
    let mut job = training(&["--pp=4", "--vp=2"]);
    job.signal(Signal::KILL);
    assert!(job.gone_within(Duration::from_secs(5)), "left: {:?}", job.processes());
    assert_eq!(job.wait(SOON).signal, Some(9));
}

#[test]
fn a_launcher_that_is_to_end_ends_its_ranks_and_says_so() {
    // What SIGINT and SIGTERM do is in `stop.rs`.
    let cases = [(Signal::QUIT, 131, "signal 3 (SIGQUIT)"), (Signal::HUP, 129, "signal 1 (SIGHUP)")];
    // Tests under `nohup` start launchers under `nohup`.
    for (signal, code, name) in
        cases.into_iter().filter(|case| case.0 != Signal::HUP || !processes::hangup_is_ignored())
    {
        let mut job = training(&["--pp=2"]);
        job.signal(signal);
        let finished = job.wait(SOON);
        assert_eq!(finished.code, Some(code), "{finished}");
        assert_eq!(finished.last_word(), format!("error: interrupted by {name}; all ranks were stopped"), "{finished}");
        assert!(job.processes().is_empty(), "{:?}", job.processes());
        assert_eq!(job.left_behind(), [""; 0]);
    }
}

#[test]
fn a_launcher_that_is_to_ignore_hangups_does() {
    let scratch = Scratch::new();
    let script = "echo started; while [ ! -e \"$GO\" ]; do sleep 0.05; done";
    let launch = stand_in(&scratch, script, 2);
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' HUP; exec \"$@\"", "sh"]).arg(launch.get_program()).args(launch.get_args());
    command.env("GO", scratch.file("go"));
    let mut job = Job::start(command);
    job.wait_for_line("[rank 1] started", SOON);
    job.signal(Signal::HUP);
    scratch.write("go", b"");
    job.wait(SOON).expect_success();
}

#[test]
fn of_ranks_that_only_followed_none_is_named() {
    let scratch = Scratch::new();
    // Rank 3 is stuck, rank 2 waits for it in vain, and the others lose each other one by one.
    let script = r#"
case $PP_RANK in
    0) sleep 0.2; echo "error: step 3: rank 1 is lost: it closed the connection" >&2; exit 3;;
    1) echo "error: step 3: rank 2 is lost: it closed the connection" >&2; exit 3;;
    2) sleep 0.1; echo "error: step 3: the receive from rank 3 did not complete within 5s" >&2; exit 3;;
    *) exec sleep 1000;;
esac"#;
    let finished = launch_stand_in(&scratch, script, 4).wait(SOON);
    assert_eq!(finished.code, Some(3), "{finished}");
    let expected = "error: rank 2 failed with exit code 3: step 3: the receive from rank 3 did not complete within 5s";
    assert_eq!(finished.last_word(), expected, "{finished}");
}

#[test]
fn a_failing_rank_is_named_with_its_reason_and_stuck_ones_are_killed() {
    let scratch = Scratch::new();
    // Ranks 0 and 1 heed nothing; rank 3 loses rank 2 before rank 2 is quite gone.
    let script = r#"
case $PP_RANK in
    2) sleep 0.2; echo "error: the loss is not finite" >&2; echo "note: bye" >&2; exit 1;;
    3) echo "error: rank 2 is gone" >&2; exit 3;;
    *) exec sleep 1000;;
esac"#;
    let mut job = launch_stand_in(&scratch, script, 4);
    let finished = job.wait(SOON);
    assert_eq!(finished.code, Some(1), "{finished}");
    assert_eq!(finished.last_word(), "error: rank 2 failed with exit code 1: the loss is not finite", "{finished}");
    assert!(finished.stderr.contains(&"[rank 3] error: rank 2 is gone".to_owned()), "{finished}");
    assert!(job.processes().is_empty(), "{:?}", job.processes());
}

#[test]
fn ranks_that_heed_nothing_do_not_hold_up_an_interrupted_launcher() {
    let scratch = Scratch::new();
    let mut job = launch_stand_in(&scratch, "echo started; exec sleep 1000", 2);
    job.wait_for_line("[rank 1] started", SOON);
    job.signal(Signal::TERM);
    let finished = job.wait(SOON);
    assert_eq!(finished.code, Some(143), "{finished}");
    assert!(job.processes().is_empty() && job.left_behind().is_empty());
}

#[test]
fn long_lines_of_many_ranks_stay_whole() {
    let scratch = Scratch::new();
    let script = r#"
word=$(printf 'x%.0s' 1 2 3 4 5 6 7 8 9 10)
for i in 1 2 3 4 5 6 7 8 9 10; do echo "$PP_RANK $word$word$word$word$word$word$word$word $i"; done
echo "the end of $PP_RANK, without a line feed" | tr -d '\n'"#;
    let finished = launch_stand_in(&scratch, script, 11).wait(LONG).expect_success();
    for rank in 0..11 {
        let prefix = format!("[rank {rank:>2}] ");
        let lines = finished.stdout.iter().filter_map(|line| line.strip_prefix(&prefix));
        let mut expected: Vec<String> = (1..=10).map(|i| format!("{rank} {} {i}", "x".repeat(80))).collect();
        expected.push(format!("the end of {rank}, without a line feed"));
        assert_eq!(lines.collect::<Vec<_>>(), expected, "{finished}");
    }
    assert_eq!(finished.stdout.len(), 11 * 11, "{finished}");
}
