//! Runs of several processes, with the emulator's word on each.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::process::{Ended, Running, Scratch, TINY, start, trainer};

/// Where the emulator writes what it finds.
const REPORT: &str = "CUDA_EMULATOR_REPORT";

/// Runs so far: tests run beside each other.
static N_RUNS: AtomicU32 = AtomicU32::new(0);

/// A variable, for one rank or for all.
pub(crate) type Variable<'a> = (Option<u32>, &'a str, &'a str);

/// A run to be made: so many ranks, what all are given, and variables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run<'a> {
    pub(crate) n_ranks: u32,
    pub(crate) flags: &'a str,
    pub(crate) variables: &'a [Variable<'a>],
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// By rank.
    pub(crate) ended: Vec<Ended>,
    /// What the emulator found.
    pub(crate) report: String,
    /// The metrics, a line per step.
    pub(crate) metrics: Vec<serde_json::Value>,
}

impl Run<'_> {
    /// Starts every rank as a process and waits for all.
    ///
    /// # Panics
    /// Without the emulator; it would then be no test.
    pub(crate) fn start(&self) -> Outcome {
        assert!(
            libraries().is_some(),
            "there is no emulated driver on LD_LIBRARY_PATH; `cargo xtask ci emulator` runs these tests with it"
        );
        let scratch = Scratch::new(&format!("emulated-{}", N_RUNS.fetch_add(1, Ordering::Relaxed)));
        let (report, metrics) = (scratch.file("report"), scratch.file("metrics"));
        let ranks: Vec<Running> = (0..self.n_ranks).map(|rank| self.rank(rank, &scratch, &report, &metrics)).collect();
        let ended = ranks.into_iter().map(Running::wait).collect();
        let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
        let lines = read(&metrics).lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
        Outcome { ended, report: read(&report), metrics: lines }
    }

    fn rank(&self, rank: u32, scratch: &Scratch, report: &Path, metrics: &Path) -> Running {
        let line = format!("{TINY} --timeout 30 {} --metrics {}", self.flags, metrics.display());
        let mut command = trainer(&line);
        command
            .env("PP_RANK", rank.to_string())
            .env("PP_WORLD_SIZE", self.n_ranks.to_string())
            .env("PP_RENDEZVOUS_FILE", scratch.file("rank0"))
            .env("PP_FLIGHT_DIR", scratch.file("flight"))
            .env(REPORT, report);
        let mine = |of: &Option<u32>| of.is_none_or(|of| of == rank);
        for (_, name, value) in self.variables.iter().filter(|(of, ..)| mine(of)) {
            command.env(name, value);
        }
        start(&mut command)
    }
}

impl Outcome {
    /// Every rank ended well, and the emulator found nothing.
    pub(crate) fn well(self) -> Self {
        assert_eq!(self.report, "", "the emulator found something: {self:#?}");
        assert!(self.ended.iter().all(|ended| ended.code == Some(0)), "{self:#?}");
        self
    }

    /// All that decides what was trained, to the bit: loss and norm of each step, losses of validations, the weights.
    pub(crate) fn bits(&self) -> Vec<String> {
        let kept = ["loss", "grad_norm", "validation_loss", "weights_fingerprint"];
        let line = |line: &serde_json::Value| kept.map(|name| line[name].to_string()).join(" ");
        self.metrics.iter().map(line).collect()
    }
}

/// Where the emulated libraries are.
fn libraries() -> Option<PathBuf> {
    let path = std::env::var_os("LD_LIBRARY_PATH")?;
    std::env::split_paths(&path)
        .find(|folder| folder.join("libcuda.so.1").exists() && folder.join("libnccl.so.2").exists())
}
