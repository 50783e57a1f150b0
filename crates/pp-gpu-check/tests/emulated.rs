//! The program itself on the emulated driver, which `cargo xtask ci emulator` puts where the loader looks: a rehearsal of what
//! concerns NCCL, two ranks as two processes included.

use std::path::{Path, PathBuf};
use std::process::Command;

use pp_gpu_check::report::{Check, Ground, Outcome, Report};

/// Runs parts on the emulator; the exit code, and what the file says.
fn rehearse(name: &str, parts: &[&str], variables: &[(&str, &str)]) -> (Option<i32>, Report) {
    let devices = Command::new(env!("CARGO_BIN_EXE_pp-gpu-check")).arg("--count-devices").output().expect("it starts");
    let devices = String::from_utf8_lossy(&devices.stdout).trim().to_owned();
    assert_eq!(devices, "8", "the emulator is not in the loader's way: run this by `cargo xtask ci emulator`");
    let file = file(name, "json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_pp-gpu-check"));
    command.args(["--on", "emulator", "--json"]).arg(&file).args(parts.iter().flat_map(|part| ["--only", part]));
    let output = command.envs(variables.iter().copied()).output().expect("it starts");
    let text = std::fs::read_to_string(&file).expect("the file is written");
    let report = serde_json::from_str(&text).unwrap_or_else(|error| {
        panic!("{error}: {}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    });
    (output.status.code(), report)
}

fn file(name: &str, kind: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("emulated-{name}.{kind}"))
}

fn checks(report: &Report) -> impl Iterator<Item = &Check> {
    report.parts.iter().flat_map(|part| &part.checks)
}

#[test]
fn nccl_with_one_rank_and_with_two_passes_and_the_emulator_has_no_complaint() {
    let complaints = file("all", "violations");
    let _ = std::fs::remove_file(&complaints);
    let path = complaints.to_str().expect("UTF-8");
    let (code, report) = rehearse("all", &["facts", "nccl", "pair"], &[("CUDA_EMULATOR_REPORT", path)]);
    let bad: Vec<_> = checks(&report).filter(|check| check.outcome != Outcome::Passed).collect();
    assert!(bad.is_empty() && code == Some(0), "{bad:#?}");
    assert_eq!((report.ran_on, report.counts, report.n_skipped), (Ground::Emulator, false, 0));
    // Three manners, two sizes, two ranks.
    let pipelines = checks(&report).filter(|check| check.name.starts_with("pp 2 vp 2")).count();
    assert_eq!(pipelines, 12);
    assert!(report.device.is_some_and(|device| device.nccl.is_ok()));
    let violations = std::fs::read_to_string(&complaints).unwrap_or_default();
    assert_eq!(violations, "");
}

#[test]
fn an_nccl_that_is_too_old_fails_and_is_named() {
    let (code, report) = rehearse("old", &["facts"], &[("CUDA_EMULATOR_NCCL_VERSION", "21500")]);
    let failed: Vec<_> = checks(&report).filter(|check| check.outcome == Outcome::Failed).collect();
    assert_eq!((code, failed.len()), (Some(1), 1), "{failed:?}");
    assert!(failed[0].detail.contains("2.15.0 is loaded, but 2.18.0 is needed"), "{failed:?}");
}
