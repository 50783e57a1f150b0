//! What a rank did last: a ring of events, each a few moves of plain data, so that it can be kept at all times.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use pp_schedule::{Rank, Work};

use super::trigger::Trigger;
use crate::collective::Collective;
use crate::error::Operation;

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
    run: OnceLock<Run>,
    /// The action that the rank's program is at, and one on top; 0 outside a program. Beside the log: it changes far more
    /// often than anybody asks.
    action: AtomicU32,
    /// Programs begun.
    n_programs: AtomicU64,
    trigger: OnceLock<Trigger>,
    /// What the trigger does was done.
    is_pulled: AtomicBool,
    log: Mutex<Log>,
}

/// The run that a rank takes part in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Its number, which no other run has; none within one process.
    pub id: Option<u128>,
    /// How many ranks it has.
    pub n_ranks: u32,
}

#[derive(Debug)]
struct Log {
    events: VecDeque<Event>,
    n_forgotten: u64,
    /// What was begun and is not over: rarely more than one.
    open: Vec<Event>,
}

/// Everything a recorder holds at one moment.
#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    pub(super) action: Option<u32>,
    pub(super) events: Vec<Event>,
    pub(super) n_forgotten: u64,
    pub(super) open: Vec<Event>,
}

impl Recorder {
    /// A recorder for a rank, empty.
    pub fn new(rank: Rank) -> Self {
        let events = VecDeque::with_capacity(CAPACITY);
        Self(Arc::new(Shared {
            rank,
            run: OnceLock::new(),
            action: AtomicU32::new(0),
            n_programs: AtomicU64::new(0),
            trigger: OnceLock::new(),
            is_pulled: AtomicBool::new(false),
            log: Mutex::new(Log { events, n_forgotten: 0, open: Vec::with_capacity(4) }),
        }))
    }

    /// Says which run the rank takes part in; the first word counts.
    #[must_use]
    pub(crate) fn of_run(self, id: Option<u128>, n_ranks: u32) -> Self {
        // Whoever said so first said the same: a rank takes part in one run.
        let _ = self.0.run.set(Run { id, n_ranks });
        self
    }

    /// The rank.
    pub fn rank(&self) -> Rank {
        self.0.rank
    }

    /// The run that the rank takes part in, once that is known.
    pub fn run(&self) -> Option<Run> {
        self.0.run.get().copied()
    }

    /// Says at which action of its program the rank is, until the next word; none outside a program. Every program begins
    /// at action 0.
    pub fn at_action(&self, action: Option<u32>) {
        let shared = &*self.0;
        // Nothing else is to be seen through them: they are words of their own.
        shared.action.store(action.map_or(0, |action| action.saturating_add(1)), Ordering::Relaxed);
        let is_first = u64::from(action == Some(0));
        let n_programs = shared.n_programs.load(Ordering::Relaxed) + is_first;
        if is_first == 1 {
            shared.n_programs.store(n_programs, Ordering::Relaxed);
        }
        if let (Some(trigger), Some(action)) = (shared.trigger.get(), action)
            && trigger.is_at(n_programs.saturating_sub(1), action)
            && !shared.is_pulled.swap(true, Ordering::Relaxed)
        {
            trigger.pull();
        }
    }

    /// Has something done to this process when its program comes to an action; the first word counts.
    pub(crate) fn set_trigger(&self, trigger: Trigger) {
        // A run rehearses one failure.
        let _ = self.0.trigger.set(trigger);
    }

    /// Whether something was to be done to this process at an action, and none was come to.
    pub(crate) fn has_trigger_left(&self) -> bool {
        self.0.trigger.get().is_some() && !self.0.is_pulled.load(Ordering::Relaxed)
    }

    fn action(&self) -> Option<u32> {
        self.0.action.load(Ordering::Relaxed).checked_sub(1)
    }

    /// Notes that something happened now.
    pub fn note(&self, subject: Subject, state: State, n_bytes: u64) {
        let event = Event { at: Instant::now(), action: self.action(), subject, state, n_bytes };
        let mut log = self.lock();
        match state {
            State::Posted => {}
            State::Begun => {
                // Whoever caught a panic in the middle of something never says how that ended.
                if log.open.len() == CAPACITY {
                    log.open.remove(0);
                }
                log.open.push(event);
            }
            State::Done | State::Failed => {
                if let Some(place) = log.open.iter().rposition(|open| open.subject == subject) {
                    log.open.remove(place);
                }
            }
        }
        if log.events.len() == CAPACITY {
            log.events.pop_front();
            log.n_forgotten += 1;
        }
        log.events.push_back(event);
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        let log = self.lock();
        Snapshot {
            action: self.action(),
            events: log.events.iter().copied().collect(),
            n_forgotten: log.n_forgotten,
            open: log.open.clone(),
        }
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
