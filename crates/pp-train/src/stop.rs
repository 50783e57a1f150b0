//! Stopping by a signal: the step in progress is finished, and all ranks stop after the same one.
//!
//! SIGINT and SIGTERM are only noted. After each step the ranks tell each other, with what they exchange anyway, whether one
//! of them was asked to stop, and so agree. Outside of steps nothing is worth waiting for: there a signal ends the process at
//! once, as a second one does everywhere.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// What a shell adds to a signal's number.
const CODE_BASE: u8 = 128;

/// `timeout` and the like send a signal to a process and to its group: one wish, heard twice. No hand is that quick.
const ECHO: Duration = Duration::from_millis(50);

/// A signal that asks to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopSignal {
    /// SIGINT.
    Interrupt,
    /// SIGTERM.
    Terminate,
}

impl StopSignal {
    const ALL: [Self; 2] = [Self::Interrupt, Self::Terminate];

    const fn number(self) -> i32 {
        match self {
            Self::Interrupt => SIGINT,
            Self::Terminate => SIGTERM,
        }
    }

    fn of(number: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|signal| signal.number() == number)
    }

    /// `SIGTERM`
    pub const fn name(self) -> &'static str {
        match self {
            Self::Interrupt => "SIGINT",
            Self::Terminate => "SIGTERM",
        }
    }

    /// The exit code of a process that it ended.
    pub const fn exit_code(self) -> u8 {
        CODE_BASE + self.number() as u8
    }
}

/// A run that was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// By what.
    pub by: StopSignal,
    /// The steps that were done.
    pub after: u32,
    /// The steps there were to do.
    pub of: u32,
}

impl std::fmt::Display for Stopped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "stopped by {} after iteration {} of {}", self.by.name(), self.after, self.of)
    }
}

/// A process's ear for signals. The default one hears nothing.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<Shared>);

/// What is to be taken back before the process ends at once.
type Undo = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Shared {
    /// The number of the signal that came, or 0.
    asked: AtomicI32,
    /// Steps are under way, the last of which is worth finishing.
    in_steps: AtomicBool,
    undo: Mutex<Option<Undo>>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (asked, in_steps) = (&self.asked, &self.in_steps);
        f.debug_struct("Shared").field("asked", asked).field("in_steps", in_steps).finish_non_exhaustive()
    }
}

impl Stop {
    /// Listens for the signals of this process, from now on and to its end.
    ///
    /// # Errors
    /// Those of the system.
    pub fn on_signals() -> io::Result<Self> {
        let stop = Self::default();
        let mut numbers = StopSignal::ALL.map(StopSignal::number).to_vec();
        // What `nohup` has a process ignore stays ignored.
        if !hangup_is_ignored() {
            numbers.push(SIGHUP);
        }
        let mut signals = Signals::new(numbers)?;
        let ours = stop.clone();
        let listen = move || {
            let mut last: Option<(i32, Instant)> = None;
            for number in signals.forever() {
                if number == SIGHUP {
                    ours.take_back();
                    // It ends the process as if nobody listened.
                    let _ = signal_hook::low_level::emulate_default_handler(SIGHUP);
                }
                let is_echo = last.is_some_and(|(before, at)| before == number && at.elapsed() < ECHO);
                if let Some(signal) = StopSignal::of(number).filter(|_| !is_echo)
                    && !ours.ask(signal)
                {
                    ours.take_back();
                    end_at_once(signal);
                }
                last = Some((number, Instant::now()));
            }
        };
        std::thread::Builder::new().name("signals".to_owned()).spawn(listen)?;
        Ok(stop)
    }

    /// Notes a signal; false when it cannot be put off.
    fn ask(&self, signal: StopSignal) -> bool {
        let is_first = self.0.asked.swap(signal.number(), Ordering::Relaxed) == 0;
        is_first && self.0.in_steps.load(Ordering::Relaxed)
    }

    /// Has something taken back where a signal ends the process at once; what was to be before is not any more.
    pub(crate) fn on_end_at_once(&self, undo: impl FnOnce() + Send + 'static) {
        *self.0.undo.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(undo));
    }

    fn take_back(&self) {
        let undo = self.0.undo.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(undo) = undo {
            undo();
        }
    }

    /// From here on a step is finished first.
    pub(crate) fn steps_begin(&self) {
        self.0.in_steps.store(true, Ordering::Relaxed);
    }

    /// What this rank tells the others: the signal that came, or 0.
    pub(crate) fn part(&self) -> f64 {
        f64::from(self.0.asked.load(Ordering::Relaxed))
    }

    /// What the ranks make of their parts, which are the same for all: the signal of the first rank that got one.
    pub(crate) fn agreed(parts: impl IntoIterator<Item = f64>) -> Option<StopSignal> {
        parts.into_iter().find_map(|part| StopSignal::of(part as i32))
    }
}

/// Whether this process was started with SIGHUP ignored; said by the system where it says such things.
fn hangup_is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask >> (SIGHUP - 1) & 1 == 1)
}

/// Nobody may be there to read the line; the exit code comes all the same.
fn end_at_once(signal: StopSignal) {
    let _ = io::stderr().write_all(format!("error: ended at once by {}\n", signal.name()).as_bytes());
    std::process::exit(signal.exit_code().into());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_signal_within_steps_is_put_off_and_no_other() {
        let stop = Stop::default();
        assert_eq!(stop.part(), 0.0);
        stop.steps_begin();
        assert!(stop.ask(StopSignal::Terminate));
        assert_eq!(stop.part(), 15.0);
        assert!(!stop.ask(StopSignal::Interrupt), "the second");
        assert!(!Stop::default().ask(StopSignal::Terminate), "no step is under way");
    }

    #[test]
    fn ranks_agree_on_the_signal_of_the_first_that_got_one() {
        assert_eq!(Stop::agreed([0.0, 0.0]), None);
        assert_eq!(Stop::agreed([0.0, 2.0, 15.0]), Some(StopSignal::Interrupt));
        let stopped = Stopped { by: StopSignal::Terminate, after: 17, of: 320 };
        assert_eq!(stopped.to_string(), "stopped by SIGTERM after iteration 17 of 320");
        assert_eq!(StopSignal::ALL.map(StopSignal::exit_code), [130, 143]);
    }
}
