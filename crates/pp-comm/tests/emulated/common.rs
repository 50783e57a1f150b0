//! What the body of tests that all endpoints must pass asks for, between processes.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use pp_comm::Member;
use pp_schedule::Channel;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::gpu::Way;
use crate::harness::Run;
use crate::place::{self, ITEM, Place};

pub(crate) use crate::messages::*;

/// Pause between two looks at who has come.
const PAUSE: Duration = Duration::from_millis(1);

/// A kind of fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Without a device.
    Socket,
    /// Over NCCL.
    Nccl(Way),
}

impl Kind {
    /// Whether a send is complete before its receive is posted.
    pub(crate) const fn buffers(self) -> bool {
        false
    }

    /// Whether a sender may be told as well that its message is not what its receiver expects.
    pub(crate) const fn may_tell_senders(self) -> bool {
        matches!(self, Self::Nccl(_))
    }
}

/// Every kind that the same body must pass on. On one communicator for all channels it cannot: one channel waits for another.
pub(crate) const EVERY: [Kind; 1] = [Kind::Nccl(Way::HOST)];

/// Runs `body` for every rank of a new fabric, each in a process of its own; gives the results in rank order.
pub(crate) fn run<R: Serialize + DeserializeOwned>(
    kind: Kind,
    n_ranks: u32,
    channels: &[Channel],
    body: impl Fn(Member) -> R + Sync,
) -> Vec<R> {
    Run::new(kind, n_ranks, channels).all(|seat| body(seat.member))
}

/// A thread per item; panics as the first thread that does.
pub(crate) fn each<T: Send, R: Send>(items: Vec<T>, body: impl Fn(T) -> R + Sync) -> Vec<R> {
    let body = &body;
    let test = thread::current().name().expect("the thread of a test").to_owned();
    thread::scope(|scope| {
        let start = |(index, item)| {
            let builder = thread::Builder::new().name(format!("{test}{ITEM}{index}"));
            builder.spawn_scoped(scope, move || body(item)).expect("a thread")
        };
        let threads: Vec<_> = items.into_iter().enumerate().map(start).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, R>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().map(join).collect()
    })
}

/// A meeting point outside the fabric, for bodies that must not end before each other.
pub(crate) fn meeting(n_ranks: usize) -> Meeting {
    Meeting { place: Place::of_meeting(), n_ranks, n_met: AtomicU32::new(0) }
}

/// Ranks that come there leave a file each in the run's directory.
pub(crate) struct Meeting {
    place: Place,
    n_ranks: usize,
    n_met: AtomicU32,
}

impl Meeting {
    /// Waits until that many have come.
    pub(crate) fn wait(&self) {
        let part = place::part().expect("the process of a rank");
        let prefix = format!("meeting-{}-{}-", self.place.number, self.n_met.fetch_add(1, Ordering::Relaxed));
        std::fs::write(part.dir.join(format!("{prefix}{}", part.rank)), "").expect("a file of the run's own");
        let start = Instant::now();
        let n_come = || {
            let names = std::fs::read_dir(&part.dir).expect("the run's directory").map_while(Result::ok);
            names.filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix)).count()
        };
        while n_come() < self.n_ranks {
            assert!(start.elapsed() < PATIENCE, "the others did not come to the meeting");
            thread::sleep(PAUSE);
        }
    }
}
