//! The processes of a run: started, listened to, and ended in every case.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::place::{MARK, Part};

/// Stands before what a rank has to say.
pub(crate) const VERDICT: &str = "verdict: ";

/// Pause between two looks at the processes.
const PAUSE: Duration = Duration::from_millis(2);

/// What processes find in their environment: all, or that of one rank.
pub(crate) type Variable = (Option<u32>, &'static str, String);

/// How a rank's process ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// In good order, having said this.
    Said(String),
    /// Otherwise: with an exit code that is not 0, or by a signal.
    Died(ExitStatus),
    /// Not at all: it was stopped, and killed once all others had ended.
    Frozen,
}

/// A rank's process, and what it says. It does not outlive this.
#[derive(Debug)]
struct Process {
    child: Child,
    out: Option<JoinHandle<String>>,
    err: Option<JoinHandle<String>>,
}

impl Process {
    /// Has this binary take a part.
    fn start(part: &Part, env: &[Variable]) -> Self {
        let file = part.dir.join(format!("part-{}", part.rank));
        std::fs::write(&file, serde_json::to_string(part).expect("a part is JSON")).expect("a file of the run's own");
        let mut command = Command::new(std::env::current_exe().expect("this binary"));
        command.args(["--exact", part.place.test(), "--include-ignored", "--nocapture"]);
        let mine = env.iter().filter(|(rank, ..)| rank.is_none_or(|rank| rank == part.rank));
        command.env(MARK, file).envs(mine.map(|(_, name, value)| (name, value))).env("RUST_BACKTRACE", "0");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("started");
        let (out, err) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
        Self { child, out: Some(listen(out)), err: Some(listen(err)) }
    }

    /// How it ended, if it has.
    fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("our own child")
    }

    /// Whether it is stopped.
    fn is_frozen(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap_or_default();
        // The name before the state may hold anything, parentheses too.
        stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('T'))
    }

    fn kill(&mut self) {
        // An error means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// All that it said, once it has ended.
    fn words(&mut self) -> (String, String) {
        let of = |thread: &mut Option<JoinHandle<String>>| {
            thread.take().map_or_else(String::new, |thread| thread.join().unwrap_or_default())
        };
        (of(&mut self.out), of(&mut self.err))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Takes in what comes, on a thread of its own.
fn listen(from: impl Read + Send + 'static) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut all = String::new();
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            all += &line;
            all.push('\n');
        }
        all
    })
}

/// A directory that does not outlive this.
#[derive(Debug)]
pub(crate) struct Dir(PathBuf);

impl Dir {
    pub(crate) fn new() -> Self {
        use std::sync::atomic::{AtomicU32, Ordering};
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let dir = std::env::temp_dir().join(format!("pp-emulated-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory of its own");
        Self(dir)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What became of a run's processes.
#[derive(Debug)]
pub(crate) struct Ended {
    /// By rank.
    pub(crate) ends: Vec<End>,
    /// All that they said, for whoever looks for a reason.
    pub(crate) words: String,
    /// Of each rank: how long after the start it ended.
    pub(crate) times: Vec<Duration>,
}

/// Starts a process per part, and waits for all, or until only stopped ones are left; those are killed.
///
/// # Panics
/// With all that they said when that takes longer than `limit`.
pub(crate) fn run(parts: &[Part], env: &[Variable], limit: Duration) -> Ended {
    let start = Instant::now();
    let mut processes: Vec<Process> = parts.iter().map(|part| Process::start(part, env)).collect();
    let mut times = vec![None; parts.len()];
    loop {
        for (process, time) in processes.iter_mut().zip(&mut times) {
            if time.is_none() && process.ended().is_some() {
                *time = Some(start.elapsed());
            }
        }
        let left = || processes.iter().zip(&times).filter(|(_, time)| time.is_none());
        if left().all(|(process, _)| process.is_frozen()) {
            break;
        }
        if start.elapsed() > limit {
            let late: Vec<u32> = left().map(|(process, _)| process.child.id()).collect();
            processes.iter_mut().for_each(Process::kill);
            let words: Vec<String> = processes.iter_mut().map(text).collect();
            panic!("processes {late:?} had not ended after {limit:?}:\n{}", words.concat());
        }
        thread::sleep(PAUSE);
    }
    let mut ended = Ended { ends: Vec::new(), words: String::new(), times: Vec::new() };
    for (process, time) in processes.iter_mut().zip(times) {
        let status = process.ended();
        process.kill();
        let words = process.words();
        ended.ends.push(end(status, &words.0));
        ended.words += &format!("{}{}", words.0, words.1);
        ended.times.push(time.unwrap_or_else(|| start.elapsed()));
    }
    ended
}

fn text(process: &mut Process) -> String {
    let (out, err) = process.words();
    format!("process {}:\n{out}{err}", process.child.id())
}

fn end(status: Option<ExitStatus>, out: &str) -> End {
    match status {
        None => End::Frozen,
        Some(status) if status.success() => {
            let said = out.lines().find_map(|line| Some(line.split_once(VERDICT)?.1.to_owned()));
            // A process whose test ended elsewhere than in its part has said nothing.
            said.map_or(End::Died(ExitStatus::from_raw(0)), End::Said)
        }
        Some(status) => End::Died(status),
    }
}
