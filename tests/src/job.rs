//! A command with all its processes: watched with deadlines, and ended with the test that started it.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::processes::{self, Process};
use crate::{Scratch, binaries};

/// What directories of flight records are called.
const FLIGHT: &str = "pp-flight-";

const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Flags of a model so small that a step takes milliseconds, with enough layers for eight stages.
pub const TINY: [&str; 16] = [
    "--mock-data",
    "--num-layers=8",
    "--hidden-size=16",
    "--num-heads=2",
    "--seq-length=16",
    "--micro-batch-size=1",
    "--microbatches=8",
    "--eval-iters=1",
    "--threads=1",
    "--lr=1e-2",
    "--min-lr=1e-3",
    "--lr-warmup-iters=1",
    "--weight-decay=0.1",
    "--clip-grad=1",
    "--seed=7",
    "--timeout=60",
];

/// A running job. Dropped, it takes all its processes with it.
#[derive(Debug)]
pub struct Job {
    child: Child,
    token: String,
    /// The job's temporary directory.
    temp: Scratch,
    stdout: Lines,
    stderr: Lines,
}

/// A job that has ended.
#[derive(Debug)]
pub struct Finished {
    /// The exit code; none when it was killed.
    pub code: Option<i32>,
    /// The signal that killed it.
    pub signal: Option<i32>,
    /// Lines of its standard output.
    pub stdout: Vec<String>,
    /// Lines of its standard error.
    pub stderr: Vec<String>,
}

/// Lines that a thread collects.
#[derive(Clone, Debug, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

impl Lines {
    fn collect(pipe: impl Read + Send + 'static) -> Self {
        let lines = Self::default();
        let ours = lines.clone();
        thread::spawn(move || {
            for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                ours.0.lock().unwrap_or_else(PoisonError::into_inner).push(line);
            }
        });
        lines
    }

    fn so_far(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Nobody holds the other end any more.
    fn ended(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }
}

impl Job {
    /// `cargo xtask launch` with the real trainer and these further flags.
    pub fn launch<S: AsRef<OsStr>>(flags: &[S]) -> Self {
        let mut command = Command::new(&binaries().xtask);
        command.args(["launch", "--binary"]).arg(&binaries().trainer).args(flags);
        Self::start(command)
    }

    /// Any command.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn start(command: Command) -> Self {
        Self::start_with_stdout(command, Stdio::piped())
    }

    /// Any command, its standard output going somewhere: what is piped is collected, and nothing else.
    ///
    /// # Panics
    /// When it cannot be started.
    pub fn start_with_stdout(mut command: Command, stdout: Stdio) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let token = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let temp = Scratch::new();
        for inherited in places() {
            // Unless the test itself has set it.
            if !command.get_envs().any(|(name, _)| name == inherited) {
                command.env_remove(inherited);
            }
        }
        command.env(processes::JOB, &token);
        // Processes that are to find each other without a launcher share one.
        if !command.get_envs().any(|(name, _)| name == "TMPDIR") {
            command.env("TMPDIR", temp.path());
        }
        command.stdin(Stdio::null()).stdout(stdout).stderr(Stdio::piped());
        let mut child = command.process_group(0).spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let stdout = child.stdout.take().map(Lines::collect).unwrap_or_default();
        let stderr = Lines::collect(child.stderr.take().expect("stderr is piped"));
        Self { child, token, temp, stdout, stderr }
    }

    /// Waits for a line on standard output that contains `text`.
    ///
    /// # Panics
    /// When it does not come in time.
    pub fn wait_for_line(&self, text: &str, timeout: Duration) {
        let seen = within(timeout, || self.stdout.so_far().iter().any(|line| line.contains(text)));
        assert!(seen, "no `{text}` within {timeout:?}\n{}", self.so_far());
    }

    /// Waits for a line on standard error that contains `text`.
    ///
    /// # Panics
    /// When it does not come in time.
    pub fn wait_for_error(&self, text: &str, timeout: Duration) {
        let seen = within(timeout, || self.stderr.so_far().iter().any(|line| line.contains(text)));
        assert!(seen, "no `{text}` within {timeout:?}\n{}", self.so_far());
    }

    /// Waits for the command itself to end, and for all that it and its ranks wrote.
    ///
    /// # Panics
    /// When it does not end in time.
    pub fn wait(&mut self, timeout: Duration) -> Finished {
        let deadline = Instant::now() + timeout;
        let status = loop {
            match self.child.try_wait().expect("a child can be waited for") {
                Some(status) => break status,
                None if Instant::now() > deadline => panic!("still running after {timeout:?}\n{}", self.so_far()),
                None => thread::sleep(LOOK_EVERY),
            }
        };
        let drained = within(Duration::from_secs(10), || self.stdout.ended() && self.stderr.ended());
        assert!(drained, "somebody still holds the output\n{}", self.so_far());
        Finished {
            code: status.code(),
            signal: status.signal(),
            stdout: self.stdout.so_far(),
            stderr: self.stderr.so_far(),
        }
    }

    /// The job's processes that have not ended.
    pub fn processes(&self) -> Vec<Process> {
        processes::of_job(&self.token)
    }

    /// Whether all processes of the job are gone within `timeout`.
    pub fn gone_within(&self, timeout: Duration) -> bool {
        within(timeout, || self.processes().is_empty())
    }

    /// Waits until the job has `count` living processes.
    ///
    /// # Panics
    /// When it has not, in time.
    pub fn wait_for_processes(&self, count: usize, timeout: Duration) {
        let there = within(timeout, || self.processes().len() == count);
        assert!(there, "not {count}: {:?}\n{}", self.processes(), self.so_far());
    }

    /// Sends a signal to the command itself.
    pub fn signal(&self, signal: Signal) {
        send(i32::try_from(self.child.id()).expect("process ids are small"), signal);
    }

    /// Sends a signal to the command's group, as a terminal does.
    ///
    /// # Panics
    /// When the group is empty.
    pub fn signal_group(&self, signal: Signal) {
        let leader = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("process ids are positive");
        kill_process_group(leader, signal).expect("the group is there and ours");
    }

    /// Sends a signal to one rank.
    ///
    /// # Panics
    /// When there is no such rank.
    pub fn signal_rank(&self, rank: u32, signal: Signal) {
        let found = self.processes().into_iter().find(|process| process.rank == Some(rank));
        send(found.unwrap_or_else(|| panic!("no rank {rank}\n{}", self.so_far())).pid, signal);
    }

    /// Names of what the job has left in its temporary directory, flight records apart.
    ///
    /// # Panics
    /// When the directory cannot be read.
    pub fn left_behind(&self) -> Vec<String> {
        self.left().into_iter().filter(|name| !name.starts_with(FLIGHT)).collect()
    }

    /// Names of the directories of flight records that a failed job has left.
    ///
    /// # Panics
    /// When the temporary directory cannot be read.
    pub fn flight_records(&self) -> Vec<String> {
        self.left().into_iter().filter(|name| name.starts_with(FLIGHT)).collect()
    }

    fn left(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.temp.path()).expect("the temporary directory is there");
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }

    fn so_far(&self) -> String {
        let (stdout, stderr) = (self.stdout.so_far(), self.stderr.so_far());
        format!("-- stdout\n{}\n-- stderr\n{}", stdout.join("\n"), stderr.join("\n"))
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        // What it has started may lead groups of its own.
        for process in self.processes() {
            if let Some(pid) = Pid::from_raw(process.pid) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        // The command leads a group of its own, which its ranks are in; the group may be empty by now.
        if let Some(leader) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(leader, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

impl Finished {
    /// The last line on standard error, or nothing.
    pub fn last_word(&self) -> &str {
        self.stderr.last().map_or("", String::as_str)
    }

    /// The job succeeded, or the test fails with all its output.
    ///
    /// # Panics
    /// When the exit code is not 0.
    pub fn expect_success(self) -> Self {
        assert_eq!(self.code, Some(0), "{self}");
        self
    }
}

impl std::fmt::Display for Finished {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "exit code {:?}, signal {:?}", self.code, self.signal)?;
        write!(f, "-- stdout\n{}\n-- stderr\n{}", self.stdout.join("\n"), self.stderr.join("\n"))
    }
}

/// Variables by which whoever runs the tests may have a place in a world itself.
fn places() -> Vec<OsString> {
    let whole = ["RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"];
    let start = ["PP_", "SLURM_", "OMPI_", "PMIX_", "TORCHELASTIC_"];
    let is_place = |name: &str| whole.contains(&name) || start.iter().any(|start| name.starts_with(start));
    let names = std::env::vars_os().map(|(name, _)| name);
    names.filter(|name| name.to_str().is_some_and(is_place)).collect()
}

fn send(pid: i32, signal: Signal) {
    let pid = Pid::from_raw(pid).expect("process ids are positive");
    kill_process(pid, signal).expect("the process is there and ours");
}

/// Whether `condition` comes true in time.
pub fn within(timeout: Duration, condition: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + timeout;
    loop {
        if condition() {
            return true;
        }
        if Instant::now() > deadline {
            return false;
        }
        thread::sleep(LOOK_EVERY);
    }
}
