//! Processes of this program: started, listened to, and ended with all they started when their time is up.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

const LOOK_EVERY: Duration = Duration::from_millis(10);
/// How long the ends of pipes may take to be read once the process is gone.
const DRAIN: Duration = Duration::from_secs(2);
/// How much of its standard error is kept.
const KEPT: usize = 40;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By itself, or by a signal.
    Ended(ExitStatus),
    /// Killed: its time was up.
    TimeUp(Duration),
}

/// What became of a process.
#[derive(Debug)]
pub struct Ended {
    /// How.
    pub end: End,
    /// The last lines of its standard error.
    pub stderr: Vec<String>,
}

impl Ended {
    /// Whether it ended by itself, with 0.
    pub fn is_well(&self) -> bool {
        matches!(self.end, End::Ended(status) if status.success())
    }

    /// Why it did not end well: how it ended, and the line of its standard error that says most.
    pub fn why(&self) -> String {
        let how = match self.end {
            End::Ended(status) => format!("it ended with {status}"),
            End::TimeUp(limit) => format!("it was killed: not done within {:.0} s", limit.as_secs_f64()),
        };
        let lines = || self.stderr.iter().rev().filter(|line| !line.trim().is_empty());
        match lines().find(|line| line.starts_with("error: ")).or_else(|| lines().next()) {
            Some(line) => format!("{how}; it said last: {}", line.trim()),
            None => how,
        }
    }
}

/// A process at work. Dropped, it is killed with all it started.
#[derive(Debug)]
pub struct Running {
    child: Child,
    out: mpsc::Receiver<String>,
    err: Option<JoinHandle<Vec<String>>>,
    is_over: bool,
}

impl Running {
    /// Starts it.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(command: &mut Command) -> Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn().context("cannot start a process of this program")?;
        let (send, out) = mpsc::channel();
        if let Some(pipe) = child.stdout.take() {
            thread::spawn(move || lines(pipe).try_for_each(|line| send.send(line)));
        }
        let err = child.stderr.take().map(|pipe| {
            thread::spawn(move || {
                lines(pipe).fold(Vec::new(), |mut kept, line| {
                    if kept.len() >= KEPT {
                        kept.remove(0);
                    }
                    kept.push(line);
                    kept
                })
            })
        });
        Ok(Self { child, out, err, is_over: false })
    }

    /// Its end, and `hear` gets each line of its standard output until then.
    ///
    /// # Errors
    /// What the system says, or `hear`.
    pub fn to_end(mut self, limit: Duration, mut hear: impl FnMut(&str) -> Result<()>) -> Result<Ended> {
        let start = Instant::now();
        let end = loop {
            while let Ok(line) = self.out.try_recv() {
                hear(&line)?;
            }
            if self.has_ended()? {
                // What it started may live on, and hold the pipes.
                break self.kill().map_or(End::TimeUp(limit), End::Ended);
            }
            if start.elapsed() >= limit {
                self.kill();
                break End::TimeUp(limit);
            }
            thread::sleep(LOOK_EVERY);
        };
        let drained = Instant::now();
        while let Ok(line) = self.out.recv_timeout(DRAIN.saturating_sub(drained.elapsed())) {
            hear(&line)?;
        }
        let stderr = self.err.take().filter(|_| drained.elapsed() < DRAIN);
        Ok(Ended { end, stderr: stderr.and_then(|reader| reader.join().ok()).unwrap_or_default() })
    }

    /// Whether it has ended. It is not waited for, so that its number stays its own.
    fn has_ended(&self) -> Result<bool> {
        let Some(pid) = self.pid() else { return Ok(true) };
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        Ok(waitid(WaitId::Pid(pid), look).context("cannot wait for a process")?.is_some())
    }

    fn pid(&self) -> Option<Pid> {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
    }

    /// Ends it, if it has not ended, and its group, once. Its own end, the first time.
    fn kill(&mut self) -> Option<ExitStatus> {
        if std::mem::replace(&mut self.is_over, true) {
            return None;
        }
        if let Some(group) = self.pid() {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.kill();
        self.child.wait().ok()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

fn lines(pipe: impl Read) -> impl Iterator<Item = String> {
    BufReader::new(pipe).split(b'\n').map_while(Result::ok).map(|line| String::from_utf8_lossy(&line).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> (Ended, Vec<String>) {
        let mut heard = Vec::new();
        let running = Running::start(Command::new("sh").args(["-c", script])).unwrap();
        let ended = running.to_end(limit, |line| {
            heard.push(line.to_owned());
            Ok(())
        });
        (ended.unwrap(), heard)
    }

    #[test]
    fn lines_and_the_reason_are_heard() {
        let (ended, heard) =
            shell("echo one; echo 'error: no' >&2; echo bye >&2; echo two; exit 3", Duration::from_secs(20));
        assert_eq!(heard, ["one", "two"]);
        assert!(!ended.is_well());
        assert_eq!(ended.why(), "it ended with exit status: 3; it said last: error: no");
    }

    #[test]
    fn one_that_hangs_is_killed_and_what_it_said_is_kept() {
        let (ended, heard) = shell("echo one; sleep 100 & sleep 100", Duration::from_millis(300));
        assert_eq!(heard, ["one"]);
        assert_eq!(ended.end, End::TimeUp(Duration::from_millis(300)));
    }

    #[test]
    fn only_the_last_of_many_words_are_kept() {
        let (ended, _) = shell("for i in $(seq 100); do echo $i >&2; done", Duration::from_secs(20));
        assert_eq!(ended.stderr.len(), KEPT);
        assert_eq!(ended.stderr.last().map(String::as_str), Some("100"));
    }
}
