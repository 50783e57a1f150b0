//! Jobs that go well: one launch, two at once, and the same bits however the model is cut over processes.
#![cfg(target_os = "linux")]

use std::time::Duration;

use pp_schedule::format::grid::Grid;
use pp_schedule::{Order, ScheduleConfig, ScheduleKind, ScheduleSpec};
use workspace_tests::job::TINY;
use workspace_tests::{Finished, Job, Scratch};

/// Generous: the machine may be busy with other tests.
const LONG: Duration = Duration::from_secs(120);

fn tiny(further: &str) -> Vec<String> {
    TINY.into_iter().chain(further.split_whitespace()).map(str::to_owned).collect()
}

/// Index of the first line of rank 0 with this text.
fn position(finished: &Finished, text: &str) -> usize {
    let found = finished.stdout.iter().position(|line| line.starts_with("[rank 0] ") && line.contains(text));
    found.unwrap_or_else(|| panic!("no `{text}`\n{finished}"))
}

#[test]
fn a_launch_trains_and_tells_everything_in_order() {
    let mut job = Job::launch(&tiny("--vp 2 --pp 2 --train-iters 5"));
    let finished = job.wait(LONG).expect_success();
    let told = [
        "configuration",
        "stage -> rank/chunk -> layers",
        "bubble",
        "peak in-flight activations",
        "iteration 1/5 | loss ",
        "iteration 5/5 | loss ",
        "tokens/s in the median step",
        "validation loss",
        "weights fingerprint",
    ];
    let positions = told.map(|text| position(&finished, text));
    assert!(positions.is_sorted(), "{positions:?}\n{finished}");
    let unprefixed = finished.stdout.iter().find(|line| !line.starts_with("[rank "));
    assert_eq!(unprefixed, None, "{finished}");
    assert_eq!(finished.stderr, [""; 0], "{finished}");
    assert!(job.processes().is_empty() && job.left_behind().is_empty(), "{:?}", job.left_behind());
}

#[test]
fn a_dry_run_prints_the_tables_and_starts_no_rank() {
    let finished = Job::launch(&tiny("--pp 4 --vp 2 --dry-run")).wait(LONG).expect_success();
    assert!(finished.stdout.iter().any(|line| line.contains("stage -> rank/chunk -> layers")), "{finished}");
    assert!(!finished.stdout.iter().any(|line| line.contains("[rank") || line.contains("iteration ")), "{finished}");
}

#[test]
fn two_launches_at_once_both_train_on_the_default_text() {
    let without_data: Vec<String> = tiny("--pp 2 --vp 2 --train-iters 5");
    let without_data: Vec<&String> = without_data.iter().filter(|flag| *flag != "--mock-data").collect();
    let mut jobs = [Job::launch(&without_data), Job::launch(&without_data)];
    let [a, b] = jobs.each_mut().map(|job| job.wait(LONG).expect_success());
    let origin = |finished: &Finished| {
        let line = finished.stdout.iter().find(|line| line.starts_with("data: Rust sources of "));
        line.unwrap_or_else(|| panic!("no origin of the data\n{finished}")).clone()
    };
    assert_eq!(origin(&a), origin(&b));
    let fingerprint = |finished: &Finished| finished.stdout[position(finished, "weights fingerprint")].clone();
    assert_eq!(fingerprint(&a), fingerprint(&b));
}

/// Loss and gradient norm of each iteration and the final weights' fingerprint, as written.
fn bits(flags: &str) -> Vec<String> {
    let scratch = Scratch::new();
    let metrics = scratch.file("metrics.jsonl");
    let flags = tiny(&format!("{flags} --train-iters 10 --metrics {metrics}"));
    Job::launch(&flags).wait(LONG).expect_success();
    let lines = std::fs::read_to_string(&metrics).expect("rank 0 wrote the metrics");
    lines.lines().filter_map(line_bits).collect()
}

/// The figures' own digits are compared: reading them as numbers could round two of them to one.
fn line_bits(line: &str) -> Option<String> {
    let field = |name: &str| {
        let (_, rest) = line.split_once(&format!("\"{name}\":"))?;
        Some(rest.split([',', '}']).next().unwrap_or(rest))
    };
    match (field("loss"), field("grad_norm"), field("weights_fingerprint")) {
        (Some(loss), Some(norm), None) => Some(format!("{} loss {loss} norm {norm}", field("iteration")?)),
        (None, None, Some(fingerprint)) => Some(format!("weights {fingerprint}")),
        _ => None,
    }
}

#[test]
fn loss_norm_and_weights_have_the_same_bits_on_one_process_on_two_and_on_four() {
    let one = bits("--pp 1");
    assert_eq!(one.len(), 11, "{one:?}");
    assert_eq!(bits("--pp 2 --vp 2"), one, "pp 2, vp 2");
    assert_eq!(bits("--pp 4"), one, "pp 4");
    assert_ne!(bits("--pp 2 --seed 8"), one, "another seed");
}

/// Both ends of the model on one process, by name and from a file that also says how many ranks there are.
#[test]
fn stages_in_a_v_have_the_same_bits_by_name_and_from_a_file() {
    let spec = ScheduleSpec { schedule: Some(ScheduleKind::ZbV), ..ScheduleSpec::new(2, 1, 8) };
    let order = Order::generate(&ScheduleConfig::new(&spec).expect("a valid schedule"));
    let scratch = Scratch::new();
    let file = scratch.write("zb-v.csv", Grid::from(&order).to_csv().as_bytes());
    let one = bits("--pp 1");
    assert_eq!(bits("--pp 2 --schedule zb-v"), one, "by name");
    assert_eq!(bits(&format!("--schedule-csv {file}")), one, "from a file");
}
