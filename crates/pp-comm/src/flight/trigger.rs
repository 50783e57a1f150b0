//! Something that is done to this process when its program comes to an action: a rehearsal of what may happen to a rank.

use std::thread;
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blow {
    /// The process is killed, as by `kill -9`.
    Kill,
    /// The process is stopped, as by `kill -STOP`: its connections stay, and nothing moves.
    Freeze,
    /// The program goes on only after this time; other threads of the process are not held up.
    Stall(Duration),
}

/// What is done, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trigger {
    pub(crate) blow: Blow,
    /// The program, counted from 0 as they are run.
    pub(crate) step: u64,
    /// The place in it. A program that is shorter counts as being there with the next one's first action.
    pub(crate) action: u32,
}

impl Trigger {
    pub(super) const fn is_at(&self, step: u64, action: u32) -> bool {
        step > self.step || (step == self.step && action >= self.action)
    }

    pub(super) fn pull(self) {
        let signal = match self.blow {
            Blow::Kill => Signal::KILL,
            Blow::Freeze => Signal::STOP,
            Blow::Stall(time) => return thread::sleep(time),
        };
        // A process may always signal itself; were it refused, the rehearsal would show that nothing fails.
        let _ = kill_process(getpid(), signal);
    }
}
