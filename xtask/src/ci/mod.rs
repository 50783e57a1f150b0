//! `cargo xtask ci`: the checks beyond `cargo test --workspace`.

mod emulator;
mod features;
mod layering;
mod lints;
mod package;
mod purity;
mod size;
mod sweep;

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::ValueEnum;

use crate::workspace::{cargo, root};

/// Run the checks beyond `cargo test --workspace`
///
/// Runs every step, also after one has failed, and ends with a summary. Exits 1 when a step failed.
#[derive(clap::Args, Debug)]
pub(crate) struct CiArgs {
    /// Steps to run [default: all]
    #[arg(value_enum)]
    steps: Vec<Step>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Step {
    /// Formatting
    Fmt,
    /// Clippy, warnings denied
    Clippy,
    /// Documentation, warnings denied
    Docs,
    /// Which crates may depend on which
    Layering,
    /// The schedule core does no I/O and starts no threads
    Purity,
    /// Optional features type-check on a machine without what they drive
    Features,
    /// NCCL's path on the emulated driver: clippy and tests with its features
    Emulator,
    /// Only the named crates may hold unsafe code
    Lints,
    /// Examples that import the crates as another project would
    Examples,
    /// Every small schedule under every policy is proved, or refused by the stated rule
    Sweep,
    /// Recorded zero-bubble orders are not shorter than what the search finds
    Golden,
    /// 200 ranks killed at random moments: all others end, say why, and leave nothing
    Kills,
    /// The simulator foretells what the executor takes over stages that sleep, within 5 %
    Timing,
    /// Every order in which the threads of a memory fabric can go, by loom
    Loom,
    /// The schedule core packs, and builds from its package
    Package,
    /// Licences and advisories, where cargo-deny is installed
    Deny,
    /// Files that have grown long; a report, never a failure
    Size,
}

/// What a step has to say besides having passed.
enum Passed {
    Plainly,
    Skipped(String),
}

pub(crate) fn run(args: &CiArgs) -> anyhow::Result<u8> {
    let steps = if args.steps.is_empty() { Step::value_variants() } else { &args.steps };
    let mut summary = Vec::new();
    for &step in steps {
        println!("== {}", step.name());
        let start = Instant::now();
        let result = step.run();
        match &result {
            Ok(_) => {}
            Err(reason) => println!("{reason:#}"),
        }
        summary.push((step, result, start.elapsed()));
    }
    println!("== summary");
    for (step, result, took) in &summary {
        println!("{}", summary_line(*step, result, *took));
    }
    let n_failed = summary.iter().filter(|(_, result, _)| result.is_err()).count();
    if n_failed > 0 {
        eprintln!("error: {n_failed} of {} steps failed", summary.len());
        return Ok(1);
    }
    Ok(0)
}

fn summary_line(step: Step, result: &anyhow::Result<Passed>, took: Duration) -> String {
    let verdict = match result {
        Ok(Passed::Plainly) => "passed".to_string(),
        Ok(Passed::Skipped(why)) => format!("skipped: {why}"),
        Err(_) => "FAILED".to_string(),
    };
    format!("{:<10} {:>6.1} s  {verdict}", step.name(), took.as_secs_f64())
}

impl Step {
    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_string())
    }

    fn run(self) -> anyhow::Result<Passed> {
        match self {
            Step::Fmt => succeeds(cargo().args(["fmt", "--all", "--check"])),
            Step::Clippy => succeeds(cargo().args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])),
            Step::Docs => {
                succeeds(cargo().args(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"))
            }
            Step::Layering => layering::check(),
            Step::Purity => purity::check(),
            Step::Features => features::check(),
            Step::Emulator => emulator::check(),
            Step::Lints => lints::check(),
            Step::Examples => examples(),
            Step::Sweep => sweep::check(),
            Step::Golden => {
                let check = ["run", "--quiet", "--release", "--package", "xtask", "--", "golden", "check"];
                succeeds(cargo().args(check).arg("tests/golden/zb.jsonl.gz"))
            }
            Step::Timing => {
                succeeds(cargo().args(["test", "--package", "pp-comm", "--test", "timing", "--", "--ignored"]))
            }
            Step::Loom => {
                // The flag would have everything built anew: it gets a folder of its own.
                let models = ["test", "--package", "pp-comm", "--lib", "models"];
                let folder = root().join("target/loom");
                succeeds(cargo().args(models).env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", folder))
            }
            Step::Kills => {
                // Of the whole workspace, as in `cargo test --workspace`: else cargo would build dependencies anew.
                let test = ["test", "--workspace", "--test", "killed"];
                succeeds(cargo().args(test).env("PP_TEST_KILLS", "200"))
            }
            Step::Package => package::check(),
            Step::Deny => deny(),
            Step::Size => size::report(),
        }
    }
}

/// Runs a command that prints its own findings.
fn succeeds(command: &mut Command) -> anyhow::Result<Passed> {
    let status = command.status().with_context(|| format!("cannot start {:?}", command.get_program()))?;
    if !status.success() {
        bail!("{:?} failed ({status})", command);
    }
    Ok(Passed::Plainly)
}

fn examples() -> anyhow::Result<Passed> {
    let folder = root().join("examples");
    let mut manifests = Vec::new();
    for entry in std::fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let manifest = entry?.path().join("Cargo.toml");
        if manifest.is_file() {
            manifests.push(manifest);
        }
    }
    if manifests.is_empty() {
        return Ok(Passed::Skipped("there are none".into()));
    }
    manifests.sort();
    for manifest in manifests {
        // One target folder for all, so that what they share is built once.
        let target = root().join("target").join("examples");
        let test = ["test", "--quiet", "--manifest-path"];
        succeeds(cargo().args(test).arg(&manifest).arg("--target-dir").arg(target))?;
    }
    Ok(Passed::Plainly)
}

fn deny() -> anyhow::Result<Passed> {
    let version = cargo().args(["deny", "--version"]).output().context("cannot start cargo")?;
    if !version.status.success() {
        return Ok(Passed::Skipped("cargo-deny is not installed".into()));
    }
    succeeds(cargo().args(["deny", "check", "licenses", "bans", "sources"]))
}
