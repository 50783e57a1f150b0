//! The ranks as processes: started together, watched together, ended together.

use std::convert::Infallible;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;

use super::env::World;
use super::failure::{self, Ended, RankEnd};
use super::output::Output;
use super::signals::{LOOK_EVERY, Signals};
use super::voice::{Stream, Voice};

/// How long after the first failure others may still fail by themselves, which tells the cause from what followed.
const GRACE: Duration = Duration::from_millis(500);
/// How long ranks may take to end when the launcher is interrupted.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long the last lines may take once every rank has ended.
const DRAIN: Duration = Duration::from_secs(2);

pub(crate) struct Job<'a> {
    pub(crate) binary: &'a Path,
    pub(crate) flags: &'a [OsString],
    pub(crate) world: World<'a>,
    pub(crate) signals: &'a Signals,
    pub(crate) voice: &'a Voice,
}

impl Job<'_> {
    /// Starts every rank and waits until all have ended and all they wrote is passed on; an error is what ended them.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let n_ranks = self.world.n_ranks;
        let output = Arc::new(Output::new(n_ranks, self.voice.clone()));
        // Each reading thread holds a sender: the channel is closed when all have reached the end.
        let (reading, drained) = mpsc::channel();
        let mut ranks = Ranks::default();
        for rank in 0..n_ranks {
            let mut child = self.start(rank).with_context(|| format!("cannot start rank {rank}"))?;
            read(rank, &mut child, &output, &reading);
            ranks.add(child);
        }
        drop(reading);
        let interrupted = ranks.wait(self.signals, self.voice)?;
        let is_good = interrupted.is_none() && ranks.0.iter().all(|process| !process.failed());
        let interrupted = interrupted.or(self.drain(&drained, is_good));
        if let Some(signal) = interrupted {
            return Err(Ended::interrupted(signal, "; all ranks were stopped").into());
        }
        match failure::first(&ranks.ends(&output)) {
            Some(first) => Err(Ended { code: first.exit_code(), reason: first.describe(n_ranks) }.into()),
            None => Ok(()),
        }
    }

    /// Waits for the ranks' last lines; those of a good job for as long as they wait for the reader and no signal comes.
    fn drain(&self, drained: &Receiver<Infallible>, is_good: bool) -> Option<i32> {
        let mut deadline = Instant::now() + DRAIN;
        while let Err(RecvTimeoutError::Timeout) = drained.recv_timeout(LOOK_EVERY) {
            if is_good && self.voice.is_held_up() {
                deadline = Instant::now() + DRAIN;
            }
            let signal = self.signals.within(Duration::ZERO);
            if signal.is_some() || Instant::now() >= deadline {
                return signal;
            }
        }
        None
    }

    fn start(&self, rank: usize) -> std::io::Result<Child> {
        let mut command = Command::new(self.binary);
        command.args(self.flags).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        self.world.tell(&mut command, rank);
        command.spawn()
    }
}

fn read(rank: usize, child: &mut Child, output: &Arc<Output>, reading: &Sender<Infallible>) {
    let forward = |stream, pipe: Box<dyn std::io::Read + Send>| {
        let (output, reading) = (Arc::clone(output), reading.clone());
        thread::spawn(move || {
            output.forward(rank, stream, pipe);
            drop(reading);
        });
    };
    if let Some(pipe) = child.stdout.take() {
        forward(Stream::Stdout, Box::new(pipe));
    }
    if let Some(pipe) = child.stderr.take() {
        forward(Stream::Stderr, Box::new(pipe));
    }
}

/// The running ranks; whatever is still running when this goes is killed and waited for.
#[derive(Default)]
struct Ranks(Vec<RankProcess>);

struct RankProcess {
    child: Child,
    /// Held open for as long as the rank is to live.
    guard: Option<ChildStdin>,
    end: Option<End>,
    killed: bool,
}

struct End {
    status: ExitStatus,
    look: u64,
}

impl Ranks {
    fn add(&mut self, mut child: Child) {
        let guard = child.stdin.take();
        self.0.push(RankProcess { child, guard, end: None, killed: false });
    }

    /// Returns when every rank has ended, with the signal that the launcher got, if any.
    fn wait(&mut self, signals: &Signals, voice: &Voice) -> anyhow::Result<Option<i32>> {
        let mut interrupted = None;
        let mut kill_at = None;
        for look in 0.. {
            if let Some(signal) = signals.within(LOOK_EVERY) {
                // Asked a second time, the user does not want to wait.
                let patience = if interrupted.is_none() { PATIENCE } else { Duration::ZERO };
                kill_at = Some(Instant::now() + patience);
                interrupted.get_or_insert(signal);
                self.ask_to_end();
            }
            if self.look(look)? {
                break;
            }
            if kill_at.is_none() && voice.failed() {
                kill_at = Some(Instant::now());
            }
            if kill_at.is_none() && self.0.iter().any(RankProcess::failed) {
                kill_at = Some(Instant::now() + GRACE);
            }
            if kill_at.is_some_and(|at| Instant::now() >= at) {
                self.kill();
            }
        }
        // A Ctrl-C reaches the ranks as well, and the last of them may be quicker than the news of it.
        Ok(interrupted.or_else(|| signals.within(Duration::ZERO)))
    }

    /// Notes which ranks have ended; true when all have.
    fn look(&mut self, look: u64) -> anyhow::Result<bool> {
        let mut all_ended = true;
        for (rank, process) in self.0.iter_mut().enumerate() {
            if process.end.is_none() {
                let status = process.child.try_wait().with_context(|| format!("cannot wait for rank {rank}"))?;
                process.end = status.map(|status| End { status, look });
            }
            all_ended &= process.end.is_some();
        }
        Ok(all_ended)
    }

    fn ask_to_end(&mut self) {
        for process in &mut self.0 {
            process.guard = None;
        }
    }

    fn kill(&mut self) {
        for process in self.0.iter_mut().filter(|process| process.end.is_none() && !process.killed) {
            process.killed = true;
            // It can only fail for a process that has ended meanwhile.
            let _ = process.child.kill();
        }
    }

    fn ends(&self, output: &Output) -> Vec<RankEnd> {
        let ends = self.0.iter().enumerate().filter_map(|(rank, process)| {
            let end = process.end.as_ref()?;
            Some(RankEnd {
                rank,
                how: end.status.into(),
                look: end.look,
                stopped: process.killed,
                last_error: output.last_error(rank),
            })
        });
        ends.collect()
    }
}

impl RankProcess {
    fn failed(&self) -> bool {
        self.end.as_ref().is_some_and(|end| !end.status.success())
    }
}

impl Drop for Ranks {
    fn drop(&mut self) {
        self.kill();
        for process in self.0.iter_mut().filter(|process| process.end.is_none()) {
            let _ = process.child.wait();
        }
    }
}
