//! The processes that prepare a job: cargo, rustc, the dry run. Each has one owner, which ends it with all it started
//! when a signal comes, when its time is up, and when the owner itself goes.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::process::{Pid, Signal, kill_process_group};

use super::failure::Ended;
use super::signals::{LOOK_EVERY, Signals};

/// How long the last lines may take once the process has ended: what it has started may still hold its output.
const DRAIN: Duration = Duration::from_secs(2);

/// Runs a command to its end and collects what it says. It is told `what` it is in errors.
pub(crate) fn output(
    command: &mut Command,
    what: &str,
    limit: Option<Duration>,
    signals: &Signals,
) -> anyhow::Result<Output> {
    let (send_out, stdout) = mpsc::channel();
    let (send_err, stderr) = mpsc::channel();
    let hear = Hear {
        stdout: Box::new(move |line| drop(send_out.send(line))),
        stderr: Box::new(move |line| drop(send_err.send(line))),
    };
    let status = follow(command, what, limit, signals, hear)?;
    let all = |lines: Receiver<Vec<u8>>| lines.try_iter().flatten().collect();
    Ok(Output { status, stdout: all(stdout), stderr: all(stderr) })
}

/// What is done with a process's lines, each with its line feed, on a thread per stream.
pub(crate) struct Hear {
    pub(crate) stdout: Box<dyn FnMut(Vec<u8>) + Send>,
    pub(crate) stderr: Box<dyn FnMut(Vec<u8>) + Send>,
}

/// Runs a command to its end and passes on what it says as it comes.
///
/// Its standard input stays open for as long as it is to live, so a trainer may be told to watch it.
pub(crate) fn follow(
    command: &mut Command,
    what: &str,
    limit: Option<Duration>,
    signals: &Signals,
    hear: Hear,
) -> anyhow::Result<ExitStatus> {
    // A group of its own: cargo does not end the compilers it has started.
    command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut owned = Owned(command.spawn().with_context(|| format!("cannot start {what}"))?);
    let guard = owned.0.stdin.take();
    let (reading, drained) = mpsc::channel::<()>();
    if let Some(pipe) = owned.0.stdout.take() {
        let reading = reading.clone();
        thread::spawn(move || pass_on(pipe, hear.stdout, reading));
    }
    if let Some(pipe) = owned.0.stderr.take() {
        thread::spawn(move || pass_on(pipe, hear.stderr, reading));
    }
    let start = Instant::now();
    let status = loop {
        if let Some(status) = owned.0.try_wait().with_context(|| format!("cannot wait for {what}"))? {
            break status;
        }
        if let Some(signal) = signals.within(LOOK_EVERY) {
            return Err(Ended::interrupted(signal, " before any rank was started").into());
        }
        if let Some(limit) = limit.filter(|limit| start.elapsed() >= *limit) {
            anyhow::bail!("{what} did not end within {limit:?} and was stopped");
        }
    };
    drop(guard);
    let _ = drained.recv_timeout(DRAIN);
    Ok(status)
}

/// `reading` goes when the end is reached.
fn pass_on(pipe: impl Read, mut hear: impl FnMut(Vec<u8>), _reading: mpsc::Sender<()>) {
    let mut pipe = BufReader::new(pipe);
    let mut line = Vec::new();
    while pipe.read_until(b'\n', &mut line).is_ok_and(|n_bytes| n_bytes > 0) {
        hear(std::mem::take(&mut line));
    }
}

/// A process that leads a group; killed with its group, unless it has ended by itself.
struct Owned(Child);

impl Drop for Owned {
    fn drop(&mut self) {
        if !matches!(self.0.try_wait(), Ok(None)) {
            return;
        }
        // It was not waited for, so the number is still its own.
        if let Some(group) = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Option<Duration>) -> anyhow::Result<Output> {
        let signals = Signals::catch().unwrap();
        output(Command::new("sh").args(["-c", script]), "the script", limit, &signals)
    }

    #[test]
    fn status_and_both_streams_are_collected() {
        let output = shell("echo one; echo two; echo bad >&2; exit 3", None).unwrap();
        assert_eq!(output.status.code(), Some(3));
        assert_eq!((output.stdout, output.stderr), (b"one\ntwo\n".to_vec(), b"bad\n".to_vec()));
    }

    #[test]
    fn a_process_whose_time_is_up_is_ended_with_all_it_started() {
        let scratch = super::super::scratch::ScratchDir::new().unwrap();
        let file = scratch.path().join("pid");
        let script = format!("sleep 1000 & echo $! >'{0}.new'; mv '{0}.new' '{0}'; wait", file.display());
        let error = shell(&script, Some(Duration::from_secs(2))).unwrap_err();
        assert_eq!(error.to_string(), "the script did not end within 2s and was stopped");
        let child = std::fs::read_to_string(&file).unwrap().trim().parse().ok().and_then(Pid::from_raw).unwrap();
        // An orphan is waited for by whoever adopts it; until then it is there, but ended.
        let ended = || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.as_raw_nonzero()));
            stat.map_or(true, |stat| stat.contains(") Z "))
        };
        let deadline = Instant::now() + Duration::from_secs(10);
        while !ended() {
            assert!(Instant::now() < deadline, "the script's child lives on");
            thread::sleep(LOOK_EVERY);
        }
    }

    #[test]
    fn a_process_may_watch_its_standard_input() {
        assert!(shell("read line", Some(Duration::from_millis(300))).is_err(), "it was open all the time");
    }
}
