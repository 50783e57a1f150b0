//! Runs a program with its own group of processes, and ends them all when its time is up.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process_group};

const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The exit code, or none where a signal ended it.
///
/// # Errors
/// It cannot be started, or its time was up.
pub(super) fn to_end(command: &mut Command, limit: Duration) -> anyhow::Result<Option<i32>> {
    let name = command.get_program().to_string_lossy().into_owned();
    let mut child = command.process_group(0).spawn().with_context(|| format!("cannot start {name}"))?;
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().with_context(|| format!("cannot wait for {name}"))? {
            return Ok(status.code());
        }
        if start.elapsed() >= limit {
            // It was not waited for, so the number is still its own.
            if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
                let _ = kill_process_group(group, Signal::KILL);
            }
            let _ = child.wait();
            bail!("{name} did not end within {} s and was killed with all it had started", limit.as_secs());
        }
        thread::sleep(LOOK_EVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_is_passed_on() {
        assert_eq!(to_end(Command::new("sh").args(["-c", "exit 7"]), Duration::from_secs(20)).unwrap(), Some(7));
    }

    #[test]
    fn a_program_that_hangs_is_ended() {
        let error = to_end(Command::new("sh").args(["-c", "sleep 100 & sleep 100"]), Duration::from_millis(300));
        assert!(error.unwrap_err().to_string().contains("was killed"));
    }
}
