//! What a communicator knows at a moment: guarded by one lock, and every change of it is announced.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::frame::{Begun, Key};
use super::kinds::{Code, Refusal};
use super::link::Link;
use super::meet::Member;
use crate::clock::Clock;

/// How far a communicator is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The other ranks are not there yet.
    Making,
    /// It can be used.
    Ready,
    /// It waits for what was launched, and for the others to be as far.
    Leaving,
    /// It left in good order.
    Left,
    /// It was aborted.
    Aborted,
}

/// What came from peers and was not used yet.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    /// Operations that began there, by rank.
    pub(crate) begun: HashMap<(usize, Key), Begun>,
    /// What those moved.
    pub(crate) data: HashMap<(usize, Key), Vec<u8>>,
    /// What they wait for, as they said when asked.
    pub(crate) told: BTreeMap<usize, String>,
    /// Who said goodbye.
    pub(crate) left: Vec<usize>,
}

/// Where the parts of one launch, each on a stream of its own, wait for each other.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    pub(crate) n_begun: usize,
    pub(crate) n_done: usize,
    pub(crate) n_gone: usize,
    /// What is ordered before the parts that have begun.
    pub(crate) before: Clock,
    /// What is ordered before the ends of the parts that are done.
    pub(crate) after: Clock,
}

/// All of it.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) phase: Phase,
    /// Why it failed, if it did; the first reason stays.
    pub(crate) failure: Option<Refusal>,
    /// The ranks do not agree on an operation: both sides, in words.
    pub(crate) mismatch: Option<String>,
    pub(crate) members: Vec<Member>,
    /// None to itself.
    pub(crate) links: Vec<Option<Arc<Link>>>,
    pub(crate) arrivals: Arrivals,
    /// Launches so far, and how many of them are over: the next one's turn.
    pub(crate) n_launched: u64,
    pub(crate) turn: u64,
    /// Operations so far.
    pub(crate) n_operations: u64,
    /// Sends to each rank, receives from each, operations together, divisions: so far.
    pub(crate) n_sends: Vec<u64>,
    pub(crate) n_receives: Vec<u64>,
    pub(crate) n_together: u64,
    pub(crate) n_splits: u64,
    /// Launches that their threads have yet to make.
    pub(crate) n_deferred: usize,
    /// Divisions under way.
    pub(crate) splitting: usize,
    /// Parts of launches that may touch memory.
    pub(crate) running: usize,
    pub(crate) gates: HashMap<u64, Gate>,
    /// Operations that have begun and are not complete, in words, by their number.
    pub(crate) underway: BTreeMap<u64, String>,
}

impl State {
    pub(crate) fn new() -> Self {
        Self {
            phase: Phase::Making,
            failure: None,
            mismatch: None,
            members: Vec::new(),
            links: Vec::new(),
            arrivals: Arrivals::default(),
            n_launched: 0,
            turn: 0,
            n_operations: 0,
            n_sends: Vec::new(),
            n_receives: Vec::new(),
            n_together: 0,
            n_splits: 0,
            n_deferred: 0,
            splitting: 0,
            running: 0,
            gates: HashMap::new(),
            underway: BTreeMap::new(),
        }
    }

    /// Whether nothing can come of it any more.
    pub(crate) fn is_over(&self) -> bool {
        self.failure.is_some() || self.phase == Phase::Aborted
    }

    /// What `ncclCommGetAsyncError` says.
    pub(crate) fn code(&self) -> Code {
        match (&self.failure, self.phase) {
            (Some(failure), _) => failure.code,
            (None, Phase::Making | Phase::Leaving) => Code::InProgress,
            (None, Phase::Ready) if self.splitting > 0 || self.n_deferred > 0 => Code::InProgress,
            (None, Phase::Aborted) => Code::InvalidUsage,
            (None, Phase::Ready | Phase::Left) => Code::Success,
        }
    }

    /// What this rank waits for, in words.
    pub(crate) fn waits_for(&self) -> String {
        let n_queued = self.n_launched - self.turn;
        match (self.underway.is_empty(), n_queued) {
            (true, 0) => format!("nothing: all of its {} launches are complete", self.n_launched),
            (true, n) => format!("its streams: {n} launches have not begun"),
            (false, n) => {
                let underway: Vec<&str> = self.underway.values().map(String::as_str).collect();
                let more = if n > 1 { format!(" (behind it {} more launches)", n - 1) } else { String::new() };
                format!("{}{more}", underway.join(" and "))
            }
        }
    }
}
