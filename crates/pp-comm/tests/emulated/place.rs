//! Where in this binary's tests a run of ranks stands, so that a process can find the part that it is to take.
//!
//! A rank's process runs the test from its start. A run that came before its own gives what it gave in the test's process; its own
//! gives the process its part, and the process ends there.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{LazyLock, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Names the file that tells a process which part is its own.
pub(crate) const MARK: &str = "PP_EMULATED_PART";

/// Stands before an item's number in the name of a thread that works on it.
pub(crate) const ITEM: char = '#';

/// A run, or a meeting: the name of the thread that asks for it, and its number among those of this thread.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Place {
    pub(crate) thread: String,
    pub(crate) number: u32,
}

thread_local! {
    static N_RUNS: Cell<u32> = const { Cell::new(0) };
    static N_MEETINGS: Cell<u32> = const { Cell::new(0) };
}

impl Place {
    fn next(counter: &'static std::thread::LocalKey<Cell<u32>>) -> Self {
        let number = counter.replace(counter.get() + 1);
        let thread = std::thread::current().name().expect("the thread of a test, or of an item").to_owned();
        Self { thread, number }
    }

    /// The next run of this thread.
    pub(crate) fn of_run() -> Self {
        Self::next(&N_RUNS)
    }

    /// The next meeting of this thread.
    pub(crate) fn of_meeting() -> Self {
        Self::next(&N_MEETINGS)
    }

    /// The test.
    pub(crate) fn test(&self) -> &str {
        self.thread.split_once(ITEM).map_or(&self.thread, |(test, _)| test)
    }
}

/// What runs gave so far, in the order of ranks.
static GIVEN: Mutex<BTreeMap<Place, Value>> = Mutex::new(BTreeMap::new());

/// Keeps what a run gave.
pub(crate) fn keep(place: Place, given: Value) {
    GIVEN.lock().unwrap_or_else(PoisonError::into_inner).insert(place, given);
}

/// What the runs of a test gave.
pub(crate) fn given_in(test: &str) -> Vec<(Place, Value)> {
    let given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    given
        .iter()
        .filter(|(place, _)| place.test() == test)
        .map(|(place, value)| (place.clone(), value.clone()))
        .collect()
}

/// The part of a rank's process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Part {
    /// The run.
    pub(crate) place: Place,
    pub(crate) rank: u32,
    /// Where the ranks meet.
    pub(crate) host: std::net::SocketAddr,
    /// A directory of this run alone.
    pub(crate) dir: PathBuf,
    /// What earlier runs gave.
    pub(crate) given: Vec<(Place, Value)>,
}

impl Part {
    /// What a run that is not this process's gave; none where that is not known.
    pub(crate) fn given_by(&self, place: &Place) -> Option<Value> {
        self.given.iter().find(|(of, _)| of == place).map(|(_, value)| value.clone())
    }
}

static PART: LazyLock<Option<Part>> = LazyLock::new(|| {
    let text = std::fs::read_to_string(std::env::var_os(MARK)?).expect("the part that was written for this process");
    Some(serde_json::from_str(&text).expect("a part"))
});

/// This process's part; none in the process of the test.
pub(crate) fn part() -> Option<&'static Part> {
    PART.as_ref()
}
