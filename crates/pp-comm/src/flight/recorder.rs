//! What a rank did last: a ring of events, each a few moves of plain data, so that it can be kept at all times.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use pp_schedule::{Rank, Work};

use crate::error::{Collective, Operation};

/// The most events that are kept; earlier ones are forgotten.
pub(crate) const CAPACITY: usize = 1024;

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A computation of a step.
    Compute {
        /// The step.
        step: u64,
        /// What is computed.
        work: Work,
    },
    /// A send or a receive.
    Transfer(Operation),
    /// A collective of a group, or of all ranks through the host.
    Collective {
        /// Which.
        collective: Collective,
        /// The group; none for the host's.
        group: Option<u32>,
        /// Its number among those of the group.
        round: u64,
    },
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Compute { step, work } => write!(f, "compute {work} of step {step}"),
            Self::Transfer(operation) => operation.fmt(f),
            Self::Collective { collective, group: Some(group), round } => {
                write!(f, "{collective} {round} of group {group}")
            }
            Self::Collective { collective, group: None, round } => write!(f, "{collective} {round} of all ranks"),
        }
    }
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It was started, and nobody waits for it yet.
    Posted,
    /// It is in progress, or waited for.
    Begun,
    /// It is complete.
    Done,
    /// It failed.
    Failed,
}

/// Something that happened on a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When.
    pub at: Instant,
    /// The place of the action in the rank's program that it belongs to, if a program ran.
    pub action: Option<u32>,
    /// What it is about.
    pub subject: Subject,
    /// How far that is.
    pub state: State,
    /// Bytes that travel, where any do.
    pub n_bytes: u64,
}

/// A handle on one rank's recorder. All threads of a rank may use it.
#[derive(Clone, Debug)]
pub struct Recorder(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    rank: Rank,
    log: Mutex<Log>,
}

#[derive(Debug)]
struct Log {
    /// The action that the rank's program is at.
    action: Option<u32>,
    events: VecDeque<Event>,
}

impl Recorder {
    /// A recorder for a rank, empty.
    pub fn new(rank: Rank) -> Self {
        let log = Log { action: None, events: VecDeque::with_capacity(CAPACITY) };
        Self(Arc::new(Shared { rank, log: Mutex::new(log) }))
    }

    /// The rank.
    pub fn rank(&self) -> Rank {
        self.0.rank
    }

    /// Says at which action of its program the rank is, until the next word; none outside a program.
    pub fn at_action(&self, action: Option<u32>) {
        self.lock().action = action;
    }

    /// Notes that something happened now.
    pub fn note(&self, subject: Subject, state: State, n_bytes: u64) {
        let mut log = self.lock();
        let event = Event { at: Instant::now(), action: log.action, subject, state, n_bytes };
        if log.events.len() == CAPACITY {
            log.events.pop_front();
        }
        log.events.push_back(event);
    }

    /// What happened last, oldest first.
    pub fn events(&self) -> Vec<Event> {
        self.lock().events.iter().copied().collect()
    }

    /// The last event.
    pub fn last(&self) -> Option<Event> {
        self.lock().events.back().copied()
    }

    /// A thread that panicked while it held the lock leaves a log that is still whole: every change is one move.
    fn lock(&self) -> MutexGuard<'_, Log> {
        self.0.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
