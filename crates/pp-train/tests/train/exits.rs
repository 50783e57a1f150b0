//! How a run of processes ends: losses that are no numbers, and files through which ranks do not find each other.

use std::fs;
use std::time::{Duration, Instant};

use crate::process::{Scratch, TINY, run, start, trainer};

#[test]
fn a_loss_that_is_no_number_is_a_failure_wherever_it_shows() {
    let scratch = Scratch::new("diverged");
    let metrics = scratch.file("metrics");
    // After the update of the last step, of the last but one, and of one that is followed by a validation.
    for (line, said) in [
        ("--train-iters 1", "validation loss"),
        ("--train-iters 2", "iteration 2"),
        ("--train-iters 3 --eval-interval 1", "after iteration 1"),
    ] {
        let ended = run(&format!("{TINY} --lr 1e30 --lr-warmup-iters 0 {line} --metrics {}", metrics.display()));
        ended.failed(1, &["training diverged", said, "--lr than 1e30"]);
        assert!(!ended.stdout.contains("NaN"), "{ended:?}");
        assert!(!fs::read_to_string(&metrics).unwrap().contains("null"));
    }
}

fn ranked(rank: u32, meeting: &std::path::Path) -> String {
    format!("{TINY} --pp 2 --world-size 2 --rank {rank} --timeout 30 --rendezvous-file {}", meeting.display())
}

#[test]
fn a_meeting_place_that_cannot_be_is_refused_at_once() {
    let scratch = Scratch::new("meeting");
    let garbage = scratch.write("garbage", &"notes of somebody ".repeat(1000));
    let start = Instant::now();
    for rank in [0, 1] {
        for dry in ["", "--dry-run"] {
            let at = |path: &std::path::Path| run(&format!("{} {dry}", ranked(rank, path)));
            at(&scratch.file("no/such/place")).failed(2, &["--rendezvous-file", "no/such/place", "directory"]);
            at(&scratch.file("")).failed(2, &["--rendezvous-file", "no regular file"]);
            let ended = at(&garbage);
            ended.failed(2, &["--rendezvous-file", "notes of somebody", "no address"]);
            assert!(ended.stderr.len() < 500, "{ended:?}");
        }
    }
    assert!(start.elapsed() < Duration::from_secs(20), "none of them waits for the timeout");
    assert!(fs::read_to_string(&garbage).unwrap().starts_with("notes of somebody"), "it is not ours to remove");
}

#[test]
fn ranks_meet_over_an_address_that_an_earlier_run_left() {
    let scratch = Scratch::new("stale");
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let meeting = scratch.write("rank0", &nobody.to_string());
    let other = start(&mut trainer(&ranked(1, &meeting)));
    std::thread::sleep(Duration::from_millis(300));
    let first = start(&mut trainer(&ranked(0, &meeting)));
    for ended in [first.wait(), other.wait()] {
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }
    assert!(!meeting.exists(), "it is taken back when all have joined");
}

#[test]
fn a_dry_run_looks_at_the_world_it_is_in() {
    let in_world = |size: &str, pp: u32| {
        let mut command = trainer(&format!("{TINY} --dry-run --pp {pp}"));
        command.env("PP_WORLD_SIZE", size).env("PP_RANK", "0").env("PP_RENDEZVOUS_FILE", "rank0");
        start(&mut command).wait()
    };
    in_world("3", 2).failed(2, &["world size 3", "--pp 2"]);
    assert_eq!(in_world("2", 2).code, Some(0));
    assert_eq!(run(&format!("{TINY} --dry-run --pp 2")).code, Some(0));
}
