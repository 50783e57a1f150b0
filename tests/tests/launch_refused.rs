//! Bad input: refused before any rank starts, with one last line that names the flag, its value and what would work.
#![cfg(target_os = "linux")]

use std::process::Command;
use std::time::Duration;

use workspace_tests::{Job, Scratch, binaries};

const LONG: Duration = Duration::from_secs(120);

/// The last line names everything in `named`, and nothing has run.
fn refused(command: &str, named: &[&str]) {
    let flags: Vec<&str> = command.split_whitespace().collect();
    let mut job = Job::launch(&flags);
    let finished = job.wait(LONG);
    assert_eq!(finished.code, Some(2), "{command}\n{finished}");
    let last = finished.last_word();
    assert!(last.starts_with("error: "), "{command}\n{finished}");
    for text in named {
        assert!(last.contains(text), "`{text}` is not named by: {command}\n{finished}");
    }
    assert!(!finished.stdout.iter().any(|line| line.contains("[rank")), "{command}\n{finished}");
    assert_eq!(finished.stderr.len(), 1, "one line is enough: {command}\n{finished}");
    assert!(job.processes().is_empty() && job.left_behind().is_empty(), "{command}");
}

#[test]
fn microbatches_and_groups_that_interleaved_cannot_run() {
    refused("--mock-data --pp 4 --vp 2 --microbatches 3", &["--pp is 4", "--microbatches 3", "--microbatches 4"]);
    refused(
        "--mock-data --pp 4 --vp 2 --microbatches 8 --group-size 3",
        &["--pp is 4", "--group-size 3", "--group-size 4"],
    );
    refused("--mock-data --pp 4 --vp 2 --microbatches 8 --group-size 9", &["--group-size 9", "--group-size 8"]);
    refused("--mock-data --pp 4 --vp 2 --microbatches 9", &["--microbatches 9", "--pp is 4", "--microbatches 8"]);
    refused(
        "--mock-data --pp 4 --vp 2 --microbatches 8 --group-size 4 --allow-bubbles",
        &["--allow-bubbles", "--group-size 4"],
    );
}

#[test]
fn shapes_that_do_not_divide() {
    refused("--mock-data --pp 4 --num-layers 10", &["--num-layers", "10", "8", "12"]);
    refused("--mock-data --pp 2 --hidden-size 130 --num-heads 4", &["--hidden-size", "130", "--num-heads", "4", "128"]);
    refused(
        "--mock-data --global-batch-size 7 --micro-batch-size 2",
        &["--global-batch-size 7", "--micro-batch-size 2", "6 or 8"],
    );
}

#[test]
fn names_and_flags_that_are_not_known() {
    refused("--mock-data --pp 2 --schedule zigzag", &["--schedule", "zigzag", "1f1b, dualpipe-v, gpipe"]);
    refused("--mock-data --pp 2 --device tpu", &["--device", "tpu", "cpu"]);
    refused("--mock-data --pp 2 --device cuda", &["--device cuda", "no CUDA", "cuda-build"]);
    refused("--mock-data --pp 2 --transport nccl", &["--transport nccl", "no NCCL"]);
    refused("--mock-data --pp 2 --local-rank 0", &["--local-rank cannot be given"]);
    refused("--mock-data --pp 2 --no-such-flag 3", &["--no-such-flag"]);
    refused("--mock-data --pp two", &["--pp", "two"]);
    refused("--mock-data --vp two", &["--vp", "two"]);
    refused("--mock-data --pp 18446744073709551615 --dp 2", &["--pp", "--dp"]);
    refused("--mock-data --pp 2 --dp 2", &["--dp 2", "--dp 1"]);
    refused("--mock-data --data x --pp 2", &["--data", "--mock-data"]);
}

#[test]
fn flags_that_only_the_launcher_may_give() {
    refused("--mock-data --pp 2 -- --pp 4", &["--pp", "before `--`"]);
    refused("--mock-data --pp 2 -- --pipeline-model-parallel-size=4", &["--pipeline-model-parallel-size"]);
    let scratch = Scratch::new();
    let meeting = scratch.file("rf");
    refused(
        &format!("--mock-data --pp 2 --rank 0 --world-size 2 --rendezvous-file {meeting}"),
        &["--rank", "the launcher"],
    );
    refused("--mock-data --pp 2 -- --world-size 2", &["--world-size", "the launcher"]);
}

#[test]
fn zero_for_any_size() {
    let flags = [
        "--pp",
        "--dp",
        "--tp",
        "--vp",
        "--group-size",
        "--microbatches",
        "--global-batch-size",
        "--micro-batch-size",
        "--seq-length",
        "--hidden-size",
        "--num-layers",
        "--num-heads",
        "--train-iters",
        "--eval-iters",
        "--eval-interval",
        "--threads",
    ];
    for flag in flags {
        // Given last, so that `--pp` and `--vp` themselves are given once.
        let others = if matches!(flag, "--pp" | "--vp") { "" } else { "--pp 2 --vp 2" };
        refused(&format!("--mock-data {others} {flag} 0"), &[flag, "0", "at least 1"]);
    }
}

#[test]
fn texts_that_cannot_be_trained_on() {
    let scratch = Scratch::new();
    let missing = scratch.file("missing.txt");
    refused(&format!("--pp 2 --data {missing}"), &["--data", &missing]);
    let empty = scratch.write("empty.txt", b"");
    refused(&format!("--pp 2 --data {empty}"), &["--data", &empty, "is empty"]);
    let folder = scratch.file("");
    refused(&format!("--pp 2 --data {folder}"), &["--data", &folder]);
    let short = scratch.write("short.txt", b"to be or not to be");
    refused(&format!("--pp 2 --data {short} --seq-length 64"), &["--data", &short, "18 bytes", "--seq-length 64"]);
}

#[test]
fn a_trainer_that_cannot_be_started() {
    let scratch = Scratch::new();
    let missing = scratch.file("no-trainer");
    let no_program = scratch.write("text", b"just text");
    for binary in [&missing, &no_program] {
        let mut command = Command::new(&binaries().xtask);
        command.args(["launch", "--mock-data", "--pp", "2", "--binary", binary]);
        let finished = Job::start(command).wait(LONG);
        assert_eq!(finished.code, Some(2), "{finished}");
        assert!(finished.last_word().starts_with(&format!("error: cannot start {binary}: ")), "{finished}");
    }
}

/// A user who has the binaries and nothing else.
#[test]
fn default_data_without_a_toolchain() {
    let mut command = Command::new(&binaries().xtask);
    command.args(["launch", "--binary"]).arg(&binaries().trainer).env("RUSTC", "/no/such/rustc");
    let finished = Job::start(command).wait(LONG);
    assert_eq!(finished.code, Some(1), "{finished}");
    let last = finished.last_word();
    for text in ["error: ", "--data FILE", "--mock-data", "cannot start rustc"] {
        assert!(last.contains(text), "{finished}");
    }
}

#[test]
fn a_path_that_is_no_text_is_the_data() {
    use std::os::unix::ffi::OsStrExt;
    let mut command = Command::new(&binaries().xtask);
    command.args(["launch", "--binary"]).arg(&binaries().trainer);
    command.arg(std::ffi::OsStr::from_bytes(b"--data=/no/such/\xff"));
    let finished = Job::start(command).wait(LONG);
    assert_eq!(finished.code, Some(2), "{finished}");
    assert!(finished.last_word().contains("--data") && finished.stdout.is_empty(), "{finished}");
}

#[test]
fn a_world_that_disagrees_with_pp() {
    let scratch = Scratch::new();
    for (variables, named) in [(None, "world size 1"), (Some("2"), "world size 2")] {
        let mut command = Command::new(&binaries().trainer);
        command.args(["--mock-data", "--pp", "4"]);
        if let Some(world_size) = variables {
            command
                .env("PP_RANK", "0")
                .env("PP_WORLD_SIZE", world_size)
                .env("PP_RENDEZVOUS_FILE", scratch.file("rank0"));
        }
        let finished = Job::start(command).wait(LONG);
        assert_eq!(finished.code, Some(2), "{finished}");
        let last = finished.last_word();
        assert!(last.starts_with("error: ") && last.contains(named) && last.contains("--pp 4"), "{finished}");
    }
}

#[test]
fn schedules_in_files_that_cannot_run() {
    let scratch = Scratch::new();
    let fine = scratch.write("fine.csv", b"0F0,0B0\n1F0,1B0\n");
    refused(
        &format!("--mock-data --schedule-csv {fine} --pp 3"),
        &["--pp 3 disagrees with --schedule-csv", "fine.csv, which has 2 ranks", "--pp 2"],
    );
    refused(
        &format!("--mock-data --schedule-csv {fine} --microbatches 4"),
        &["--microbatches 4 disagrees", "fine.csv, which has 1 microbatches", "--microbatches 1"],
    );
    refused("--mock-data --schedule-csv /no/such/file", &["--schedule-csv /no/such/file cannot be read"]);
    let wrong = scratch.write("wrong.csv", b"0F0,0Q0\n");
    refused(&format!("--mock-data --schedule-csv {wrong}"), &["wrong.csv is no schedule", "`0Q0`"]);
    // Two ranks that wait for each other: drawn as `pp-schedule verify` draws it, then said in one line.
    let circle = scratch.write("circle.csv", b"0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n");
    let mut job = Job::launch(&["--mock-data", "--schedule-csv", &circle]);
    let finished = job.wait(LONG);
    assert_eq!(finished.code, Some(2), "{finished}");
    assert!(finished.last_word().ends_with("ranks stuck; it is shown above"), "{finished}");
    assert!(finished.stderr.iter().any(|line| line.starts_with("the circle: rank 0 -> rank 1")), "{finished}");
    assert!(job.processes().is_empty(), "{finished}");
}
