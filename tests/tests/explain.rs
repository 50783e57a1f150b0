//! Every failure that can be rehearsed, in runs of several schedules: `cargo xtask explain` names what it was, the rank and
//! the action.
#![cfg(target_os = "linux")]

use std::process::Command;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use serde_json::Value;
use workspace_tests::{Finished, Job, Scratch, binaries};

const LONG: Duration = Duration::from_secs(120);

const TINY: &str = "--mock-data --num-layers=12 --hidden-size=16 --num-heads=2 --seq-length=16 --micro-batch-size=1 \
                    --microbatches=6 --train-iters=1000000 --threads=1";

/// Schedules, each with the number of its ranks.
const SCHEDULES: [(&str, u32); 4] = [
    ("--pp=2 --schedule=gpipe", 2),
    ("--pp=3 --schedule=1f1b", 3),
    ("--pp=3 --vp=2 --schedule=interleaved", 3),
    ("--pp=2 --schedule=zb-v", 2),
];

fn explain(folder: &str, further: &[&str]) -> Finished {
    let mut command = Command::new(&binaries().xtask);
    command.args(["explain", folder]).args(further);
    Job::start(command).wait(LONG)
}

/// What `cargo xtask explain` finds in a run with this fault, and how the run ended.
fn rehearse(schedule: &str, fault: &str, further: &str) -> (Value, Finished) {
    let scratch = Scratch::new();
    let folder = scratch.file("flight");
    let line = format!("{schedule} {TINY} --inject-fault={fault} --flight-dir={folder} {further}");
    let mut job = Job::launch(&line.split_whitespace().collect::<Vec<_>>());
    let finished = job.wait(LONG);
    assert!(job.processes().is_empty(), "{schedule}, {fault}: {:?}", job.processes());
    let explained = explain(&folder, &["--format", "json"]);
    assert_eq!(explained.code, Some(0), "{schedule}, {fault}\n{finished}\n{explained}");
    // The launcher has said the same.
    let value: Value = serde_json::from_str(&explained.stdout.join("\n")).expect("JSON");
    let summary = value["summary"].as_str().expect("a sentence");
    assert!(finished.stderr.iter().any(|line| line == summary), "{schedule}, {fault}: {summary}\n{finished}");
    // And its last line names the same rank.
    let (last, rank) = (finished.last_word(), &value["rank"]);
    let is_named = last.contains(summary)
        || last.contains(&format!("rank {rank} was killed"))
        || last.contains(&format!("rank {rank} froze"));
    assert!(is_named, "{schedule}, {fault}: {summary}\n{finished}");
    (value, finished)
}

/// Runs all cases, as many at once as there are cores.
fn each<T: Send>(cases: Vec<T>, body: impl Fn(T) + Sync) {
    let cases = Mutex::new(cases);
    let cores = thread::available_parallelism().map_or(1, |cores| cores.get());
    thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let case = cases.lock().expect("no panic while it is held").pop();
                    let Some(case) = case else { return };
                    body(case);
                }
            });
        }
    });
}

#[test]
fn meddled_messages_are_named_with_their_sender_and_action() {
    let faults = [("drop", "lost"), ("shorten", "wrong_shape"), ("mistype", "wrong_type"), ("duplicate", "duplicated")];
    let mut cases = Vec::new();
    for (schedule, pp) in SCHEDULES {
        for (fault, verdict) in faults {
            // The first message there is, and one of the last rank in a later step.
            cases.extend([(0, 1), (pp - 1, 9)].map(|(rank, send)| (schedule, fault, verdict, rank, send)));
        }
    }
    each(cases, |(schedule, fault, verdict, rank, send)| {
        let fault = format!("{fault}:rank={rank},send={send}");
        let (found, finished) = rehearse(schedule, &fault, "--timeout=5");
        let case = format!("{schedule}, {fault}: {found:#}\n{finished}");
        assert_eq!((&found["verdict"], &found["rank"]), (&verdict.into(), &rank.into()), "{case}");
        assert!(found["action"].is_u64() && found["step"].is_u64(), "{case}");
        assert!(matches!(finished.code, Some(1 | 3)), "{case}");
    });
}

#[test]
fn ranks_that_die_freeze_or_dawdle_are_named() {
    let faults = [
        ("kill:rank=1,step=1,action=5", "killed", ""),
        ("freeze:rank=1,step=1,action=5", "frozen", "--heartbeat=2"),
        ("stall:rank=1,step=1,action=5,seconds=60", "slow", "--timeout=2"),
        ("delay:rank=1,send=4,seconds=60", "slow", "--timeout=2"),
    ];
    let cases = SCHEDULES.into_iter().flat_map(|(schedule, _)| faults.map(|fault| (schedule, fault))).collect();
    each(cases, |(schedule, (fault, verdict, further))| {
        let (found, finished) = rehearse(schedule, fault, further);
        let case = format!("{schedule}, {fault}: {found:#}\n{finished}");
        assert_eq!((&found["verdict"], &found["rank"]), (&verdict.into(), &1.into()), "{case}");
        assert_eq!(finished.code, Some(3), "{case}");
        if verdict == "slow" {
            assert!(found["action"].is_u64(), "{case}");
            // It is ended without coming back, and says so itself.
            let own = finished.stderr.iter().find(|line| line.starts_with("[rank 1] error: "));
            assert!(own.is_some_and(|line| line.contains("did not come back within 2s; it was at action ")), "{case}");
        }
    });
}

#[test]
fn places_are_chosen_by_seeds_and_named_all_the_same() {
    let cases = (0..8_u64).map(|seed| (["drop", "shorten", "mistype", "duplicate"][seed as usize % 4], seed)).collect();
    each(cases, |(fault, seed)| {
        let fault = format!("{fault}:seed={seed}");
        let (found, finished) = rehearse(SCHEDULES[1].0, &fault, "--timeout=5");
        // The rank that it is done to says so.
        let said = finished.stdout.iter().find(|line| line.contains("rehearsal: --inject-fault "));
        let said = said.unwrap_or_else(|| panic!("{fault}: nobody says so\n{finished}"));
        let rank = found["rank"].to_string();
        assert!(said.contains(&format!("rank={rank},")), "{said}\n{found:#}");
    });
}

/// Links that stall and move bytes in pieces change nothing.
#[test]
fn a_run_over_rough_links_comes_to_the_same_weights() {
    let weights = |further: &str| {
        let line = format!("{} {TINY} --train-iters=3 {further}", SCHEDULES[2].0);
        let finished = Job::launch(&line.split_whitespace().collect::<Vec<_>>()).wait(LONG).expect_success();
        let line = finished.stdout.iter().find(|line| line.contains("weights fingerprint"));
        line.unwrap_or_else(|| panic!("no weights\n{finished}")).clone()
    };
    let smooth = weights("");
    for seed in 0..2 {
        assert_eq!(weights(&format!("--inject-fault=rough:seed={seed}")), smooth, "seed {seed}");
    }
}

#[test]
fn faults_that_cannot_be_are_refused() {
    for (fault, said) in [
        ("explode:rank=1,send=1", "known: drop, shorten"),
        ("drop:rank=2,send=1", "the last rank is 1"),
        ("drop:rank=1", "rank=R,send=N"),
    ] {
        let line = format!("--pp=2 {TINY} --inject-fault={fault}");
        let finished = Job::launch(&line.split_whitespace().collect::<Vec<_>>()).wait(LONG);
        assert_eq!(finished.code, Some(2), "{finished}");
        assert!(finished.last_word().contains("--inject-fault") && finished.last_word().contains(said), "{finished}");
    }
}

#[test]
fn a_fault_that_never_comes_is_said_at_the_end() {
    for fault in ["drop:rank=1,send=100000", "kill:rank=1,step=99,action=1"] {
        let line = format!("--pp=2 {TINY} --train-iters=1 --inject-fault={fault}");
        let finished = Job::launch(&line.split_whitespace().collect::<Vec<_>>()).wait(LONG).expect_success();
        let said = format!("rehearsal: --inject-fault {fault} did not come");
        assert!(finished.stdout.iter().any(|line| line.contains(&said)), "{finished}");
    }
}

#[test]
fn a_folder_that_cannot_be_written_to_is_refused_before_anything_starts() {
    let scratch = Scratch::new();
    let file = scratch.file("taken");
    std::fs::write(&file, "").expect("it is ours");
    for folder in ["/proc/flight", &file] {
        let line = format!("--pp=2 {TINY} --flight-dir={folder}");
        let finished = Job::launch(&line.split_whitespace().collect::<Vec<_>>()).wait(LONG);
        assert_eq!(finished.code, Some(2), "{finished}");
        assert!(finished.last_word().contains(&format!("--flight-dir {folder} cannot be written to")), "{finished}");
    }
}

#[test]
fn what_cannot_be_read_is_refused_or_passed_over() {
    let scratch = Scratch::new();
    let folder = scratch.file("flight");
    let missing = explain(&folder, &[]);
    assert_eq!(missing.code, Some(2), "{missing}");
    assert!(missing.last_word().contains(&folder), "{missing}");

    let line = format!("--pp=3 {TINY} --inject-fault=drop:rank=1,send=3 --flight-dir={folder} --timeout=5");
    Job::launch(&line.split_whitespace().collect::<Vec<_>>()).wait(LONG);
    let record = |rank: u32| format!("{folder}/rank-{rank}.json");
    let text = std::fs::read_to_string(record(2)).expect("every rank has written one");
    std::fs::write(record(2), &text[..text.len() / 3]).expect("it is ours");
    let cut = explain(&folder, &[]);
    assert_eq!(cut.code, Some(0), "{cut}");
    assert!(cut.stdout[0].contains(" was lost on its way from rank 1 "), "{cut}");
    assert!(cut.stdout.iter().any(|line| line.starts_with("not used: rank-2.json: ")), "{cut}");

    let run = text.split("\"run\": \"").nth(1).expect("a run's number")[..32].to_owned();
    let other = "0123456789abcdef0123456789abcdef";
    std::fs::write(record(2), text.replacen(&run, other, 1)).expect("it is ours");
    let mixed = explain(&folder, &[]);
    assert_eq!(mixed.code, Some(2), "{mixed}");
    assert!(mixed.last_word().contains(&run) && mixed.last_word().contains(other), "{mixed}");
}

#[test]
fn a_run_that_ends_well_leaves_no_records() {
    let scratch = Scratch::new();
    let folder = scratch.file("flight");
    let line = format!("--pp=2 {TINY} --train-iters=2 --flight-dir={folder}");
    Job::launch(&line.split_whitespace().collect::<Vec<_>>()).wait(LONG).expect_success();
    assert!(!std::path::Path::new(&folder).exists());
}
