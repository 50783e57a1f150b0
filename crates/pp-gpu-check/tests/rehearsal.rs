//! The program itself, on the processor: a rehearsal of what does not concern NCCL, and what it says without CUDA.

use std::path::PathBuf;
use std::process::{Command, Output};

use pp_gpu_check::report::{Ground, Outcome, Part, Report};

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_pp-gpu-check")).args(arguments).output().expect("the program starts")
}

/// Runs parts on the processor; what the file says.
fn rehearse(name: &str, parts: &[&str]) -> Report {
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.json"));
    let mut arguments = vec!["--on", "cpu", "--json", file.to_str().expect("UTF-8")];
    arguments.extend(parts.iter().flat_map(|part| ["--only", part]));
    let output = run(&arguments);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.ends_with("a rehearsal: it says nothing about a GPU\n"), "{said}");
    let text = std::fs::read_to_string(&file).expect("the file is written");
    serde_json::from_str(&text).expect("a report")
}

fn passed(part: &Part) -> usize {
    part.checks.iter().filter(|check| check.outcome == Outcome::Passed).count()
}

#[test]
fn every_operation_is_compared_and_parts_for_other_grounds_are_skipped() {
    let report = rehearse("ops", &["ops", "pair"]);
    assert_eq!((report.ran_on, report.counts), (Ground::Cpu, false));
    let [ops, pair] = &report.parts[..] else { panic!("two parts: {:?}", report.parts) };
    assert!(passed(ops) > 40 && passed(ops) == ops.checks.len(), "{ops:?}");
    assert_eq!(pair.checks.iter().map(|check| check.outcome).collect::<Vec<_>>(), [Outcome::Skipped]);
    assert_eq!((report.n_passed, report.n_failed, report.n_skipped), (ops.checks.len(), 0, 1));
}

/// On the processor all cuts have the same bits, so what would drift on a GPU must not drift here.
#[test]
fn training_steps_are_compared_over_processes() {
    let report = rehearse("training", &["training"]);
    let training = &report.parts[0];
    assert_eq!(passed(training), 5, "{training:?}");
    let pp2 = training.checks.iter().find(|check| check.name.contains("pp 2 vp 2")).expect("it is checked");
    assert!(pp2.detail.contains("at most: loss 0.0e0, norm 0.0e0"), "{pp2:?}");
}

#[test]
fn rates_are_measured_and_written() {
    let report = rehearse("figures", &["figures"]);
    let figure =
        |name: &str| report.figures.iter().find(|figure| figure.name.starts_with(name)).map(|figure| figure.value);
    for name in
        ["matmul, f32", "tokens per second, f32, pp 1", "tokens per second, f32, pp 2", "share of the matmul rate"]
    {
        assert!(figure(name).is_some_and(|value| value > 0.0), "{name}: {:?}", report.figures);
    }
}

#[cfg(not(feature = "cuda"))]
#[test]
fn without_cuda_it_says_so_in_one_line() {
    let output = run(&[]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{said}");
    assert!(said.starts_with("error: ") && said.contains("needs the feature `cuda`"), "{said}");
    assert!(output.stdout.is_empty());
}

#[test]
fn a_file_that_cannot_be_written_is_refused_before_anything_runs() {
    let output = run(&["--on", "cpu", "--json", "/no/such/folder/x.json"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.starts_with("error: cannot write /no/such/folder/x.json"), "{said}");
    assert!(output.stdout.is_empty());
}
