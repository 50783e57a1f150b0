//! The signals that end the launcher, caught before there is anything to clean up.

use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

/// How often whoever waits for a process looks at it. std cannot wait for a signal or a child, whichever comes first.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(20);

pub(crate) struct Signals {
    caught: Receiver<i32>,
    /// Held so that waiting on `caught` takes its time.
    _open: Sender<i32>,
}

impl Signals {
    pub(crate) fn catch() -> anyhow::Result<Self> {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let mut ending = vec![SIGINT, SIGTERM, SIGQUIT];
        // Under `nohup` it is ignored and has to stay so. Where that cannot be seen, it is left alone.
        if is_ignored(SIGHUP, &status) == Some(false) {
            ending.push(SIGHUP);
        }
        let mut signals = signal_hook::iterator::Signals::new(ending).context("cannot watch for signals")?;
        let (send, caught) = mpsc::channel();
        let open = send.clone();
        thread::spawn(move || {
            for signal in signals.forever() {
                if send.send(signal).is_err() {
                    break;
                }
            }
        });
        Ok(Self { caught, _open: open })
    }

    /// A signal that has come, or comes within this time.
    pub(crate) fn within(&self, patience: Duration) -> Option<i32> {
        self.caught.recv_timeout(patience).ok()
    }
}

/// By a process's `/proc/PID/status`.
fn is_ignored(signal: i32, status: &str) -> Option<bool> {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    let mask = u64::from_str_radix(mask.trim(), 16).ok()?;
    Some(mask >> (signal - 1) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read_from_the_status() {
        let status = "Name:\tx\nSigBlk:\t0000000000000001\nSigIgn:\t0000000000001001\n";
        assert_eq!(is_ignored(SIGHUP, status), Some(true));
        assert_eq!(is_ignored(SIGINT, status), Some(false));
        assert_eq!(is_ignored(SIGHUP, ""), None);
    }
}
