//! Ranks as processes: this very binary again, told by its environment to play one rank of a test.

use std::fs::{self, File};
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cuda_emulator::abi::nccl::UniqueId;

use crate::rank::{LIMIT, draw};

const RANK_VAR: &str = "EMULATOR_TEST_RANK";
const ID_VAR: &str = "EMULATOR_TEST_ID";

/// What came of a run.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) statuses: Vec<ExitStatus>,
    /// What the ranks reported, all together.
    pub(crate) report: String,
    /// What each printed.
    pub(crate) printed: Vec<String>,
    /// How long it took.
    pub(crate) took: Duration,
}

impl Outcome {
    /// That all ranks ended well, and that nothing was reported.
    pub(crate) fn is_clean(&self) {
        assert!(self.statuses.iter().all(ExitStatus::success), "{self:#?}");
        assert_eq!(self.report, "", "{self:#?}");
    }

    /// That a rank ended well: what it checked is so.
    pub(crate) fn passed(&self, rank: usize) {
        assert!(self.statuses[rank].success(), "rank {rank}: {self:#?}");
    }

    /// The blocks of one kind.
    pub(crate) fn violations(&self, kind: &str) -> Vec<&str> {
        let first = format!("violation: {kind}\n");
        self.report.split("\n\n").filter(|block| block.trim_start().starts_with(&first)).collect()
    }
}

/// Processes that are killed when this goes, whatever happens.
struct Ranks(Vec<Child>);

impl Drop for Ranks {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // It may have ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A file that goes with this.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        // It may never have been made.
        let _ = fs::remove_file(&self.0);
    }
}

impl Scratch {
    fn new(what: &str) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        Self(std::env::temp_dir().join(format!("cuda-emulator-{}-{number}-{what}", std::process::id())))
    }
}

/// Plays `body` as a rank where this process is one; else starts the ranks, each with its environment, and gives what came
/// of them. `test` is the name of the test that calls this.
pub(crate) fn run(
    test: &str,
    n_ranks: usize,
    environment: impl Fn(usize) -> Vec<(&'static str, &'static str)>,
    body: impl Fn(UniqueId, usize),
) -> Option<Outcome> {
    if let (Ok(rank), Ok(id)) = (std::env::var(RANK_VAR), std::env::var(ID_VAR)) {
        let mut internal = [0; 128];
        for (byte, digits) in internal.iter_mut().zip(id.as_bytes().chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(digits).unwrap(), 16).unwrap();
        }
        body(UniqueId { internal }, rank.parse().unwrap());
        return None;
    }
    let id: String = draw().internal.iter().map(|byte| format!("{byte:02x}")).collect();
    let report = Scratch::new("report");
    let printed: Vec<Scratch> = (0..n_ranks).map(|_| Scratch::new("printed")).collect();
    let begun = Instant::now();
    let start = |rank: usize| {
        let out = File::create(&printed[rank].0).unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([test, "--exact", "--nocapture", "--test-threads", "1"]).stdin(Stdio::null());
        command.stderr(out.try_clone().unwrap()).stdout(out).env("RUST_BACKTRACE", "0");
        command.env(RANK_VAR, rank.to_string()).env(ID_VAR, &id).env("CUDA_EMULATOR_REPORT", &report.0);
        command.envs(environment(rank)).spawn().unwrap()
    };
    let mut ranks = Ranks((0..n_ranks).map(start).collect());
    let statuses = ranks.0.iter_mut().map(|child| wait(child, begun + LIMIT)).collect::<Option<Vec<_>>>();
    let took = begun.elapsed();
    let read = |scratch: &Scratch| {
        let mut text = String::new();
        File::open(&scratch.0).and_then(|mut file| file.read_to_string(&mut text)).map_or(String::new(), |_| text)
    };
    let printed: Vec<String> = printed.iter().map(read).collect();
    let Some(statuses) = statuses else { panic!("{test}: not over after {LIMIT:?}: {printed:#?}") };
    for (rank, text) in printed.iter().enumerate() {
        assert!(text.contains("running 1 test"), "rank {rank} of {test} runs no test: {text}");
    }
    Some(Outcome { statuses, report: read(&report), printed, took })
}

fn wait(child: &mut Child, end: Instant) -> Option<ExitStatus> {
    loop {
        match child.try_wait().unwrap() {
            Some(status) => return Some(status),
            None if Instant::now() > end => return None,
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    }
}
