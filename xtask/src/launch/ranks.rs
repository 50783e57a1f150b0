//! The ranks as processes: started together, watched together, ended together.

use std::convert::Infallible;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGINT, SIGTERM};

use super::env::World;
use super::failure::{self, Culprit, Ended, How, RankEnd};
use super::flight;
use super::output::Output;
use super::program::Program;
use super::signals::{LOOK_EVERY, Signals};
use super::stopped;
use super::voice::{Stream, Voice};

/// How long after the first failure others may still fail by themselves, which tells the cause from what followed: they agree
/// on it first, write down what they did last, and those that do not come back from a computation are ended after two seconds.
const GRACE: Duration = Duration::from_millis(2500);
/// How long ranks may take to end when the launcher is interrupted by what does not ask for the step to be finished.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long after the first rank that stopped the others may take: they stop after the same step.
const STOPPING: Duration = Duration::from_secs(5);
/// `timeout` and the like send a signal to a process and to its group: one wish, heard twice. No hand is that quick.
const ECHO: Duration = Duration::from_millis(50);
/// How long the last lines may take once every rank has ended.
const DRAIN: Duration = Duration::from_secs(2);

pub(crate) struct Job<'a> {
    pub(crate) program: &'a Program,
    pub(crate) flags: &'a [OsString],
    pub(crate) world: World<'a>,
    /// Where ranks write what they did last was asked for, and stays as they leave it.
    pub(crate) keeps_flight: bool,
    /// How long the step in progress may take when the launcher is asked to stop.
    pub(crate) patience: Duration,
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
        let interrupted = ranks.wait(self.patience, self.signals, self.voice)?;
        let is_good = interrupted.is_none() && ranks.0.iter().all(|process| !process.failed() && !process.stopped());
        let interrupted = interrupted.or(self.drain(&drained, is_good));
        let ends = ranks.ends(&output);
        let together = stopped::together(&ends);
        let is_failure = interrupted.is_none() && together.is_none();
        let first = failure::first(&ends).filter(|_| is_failure);
        let culprit = match first {
            Some(first) => self.tell_flight(first, &ends),
            None => {
                self.forget_flight();
                None
            }
        };
        // A signal that comes when nothing is left to stop changes nothing.
        let all_done = ends.len() == n_ranks && ends.iter().all(|end| !end.stopped && end.how == How::Code(0));
        if let Some(signal) = interrupted.filter(|_| !all_done) {
            let how =
                together.map_or("were stopped".to_owned(), |(_, said)| format!("stopped {}", stopped::after(said)));
            return Err(Ended::interrupted(signal, &format!("; all ranks {how}")).into());
        }
        if let Some((code, said)) = together {
            return Err(Ended { code, reason: said.to_owned() }.into());
        }
        match first {
            Some(first) => {
                Err(Ended { code: first.exit_code(), reason: first.describe_with(culprit.as_ref(), n_ranks) }.into())
            }
            None => Ok(()),
        }
    }

    /// Says what the records tell of a failure, or that there are none; gives whom they name.
    fn tell_flight(&self, first: &RankEnd, ends: &[RankEnd]) -> Option<Culprit> {
        match flight::told(&self.world.flight_dir, ends) {
            Ok(told) => {
                self.voice.say(Stream::Stderr, told.text);
                told.culprit
            }
            Err(error) => {
                // A rank that refuses its arguments has done nothing that could be written down.
                if self.keeps_flight && !first.refused() {
                    self.voice.say(Stream::Stderr, format!("no rank has left a record of what it did last: {error}\n"));
                }
                self.forget_flight();
                None
            }
        }
    }

    fn forget_flight(&self) {
        if !self.keeps_flight {
            flight::forget(&self.world.flight_dir);
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
        let mut command = self.program.command();
        command.args(self.flags).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        self.world.tell(&mut command, rank);
        // A terminal's Ctrl-C reaches the launcher alone, which passes it on: ranks would take it for a second one.
        command.process_group(0).spawn()
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
    fn wait(&mut self, patience: Duration, signals: &Signals, voice: &Voice) -> anyhow::Result<Option<i32>> {
        let mut interrupted: Option<(i32, Instant)> = None;
        let (mut kill_at, mut stop_by) = (None, None);
        for look in 0.. {
            if let Some(signal) = signals.within(LOOK_EVERY) {
                let now = Instant::now();
                match interrupted {
                    None => {
                        interrupted = Some((signal, now));
                        kill_at = Some(now + self.interrupt(signal, patience));
                    }
                    Some((first, at)) if first == signal && now - at < ECHO => {}
                    // Asked a second time, the user does not want to wait.
                    Some(_) => kill_at = Some(now),
                }
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
            if self.0.iter().any(RankProcess::stopped) {
                let latest = Instant::now() + STOPPING;
                stop_by = stop_by.or(Some(latest));
            }
            if kill_at.into_iter().chain(stop_by).any(|at| Instant::now() >= at) {
                self.kill();
            }
        }
        // The last rank may have been quicker than the news.
        Ok(interrupted.map(|(signal, _)| signal).or_else(|| signals.within(Duration::ZERO)))
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

    /// Tells the ranks of a signal; says how long they may take to end.
    fn interrupt(&mut self, signal: i32, patience: Duration) -> Duration {
        let passed_on = match signal {
            SIGINT => Signal::INT,
            SIGTERM => Signal::TERM,
            _ => {
                for process in &mut self.0 {
                    process.guard = None;
                }
                return PATIENCE;
            }
        };
        for process in self.0.iter().filter(|process| process.end.is_none()) {
            // It was not waited for, so the number is still its own.
            if let Some(pid) = i32::try_from(process.child.id()).ok().and_then(Pid::from_raw) {
                let _ = kill_process(pid, passed_on);
            }
        }
        patience
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
        self.end.as_ref().is_some_and(|end| !end.status.success() && !stopped::is_stop(end.status.code()))
    }

    /// Asked to, after a step that the others finish too.
    fn stopped(&self) -> bool {
        self.end.as_ref().is_some_and(|end| stopped::is_stop(end.status.code()))
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
