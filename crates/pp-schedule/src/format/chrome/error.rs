//! Why a trace is none of ours, or cannot be used.

use crate::ids::{Rank, Stage};
use crate::order::OrderError;
use crate::work::Work;

/// Why a trace was not read, or not used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChromeError {
    /// Not JSON, or not an object with `traceEvents`.
    #[error("not a Chrome trace: {0}")]
    Json(#[from] serde_json::Error),
    /// The format's other form, which has no place for a header.
    #[error(
        "not a Chrome trace in object form: it is an array of events; expected an object with `traceEvents` and \
         `otherData`, as `pp-schedule` and the trainer write it"
    )]
    Array,
    /// JSON without our header, or with another version of it.
    #[error(
        "otherData.{field} is {found}, expected {expected}: this reads traces that `pp-schedule` or the trainer wrote, or \
         that have the same header"
    )]
    Header {
        /// The field.
        field: &'static str,
        /// What is there.
        found: String,
        /// What should be.
        expected: String,
    },
    /// A computation that says too little, or the wrong thing.
    #[error("traceEvents[{index}]{}: {what}", if name.is_empty() { String::new() } else { format!(" (`{name}`)") })]
    Event {
        /// Its number among the events.
        index: usize,
        /// Its name, if it has one.
        name: String,
        /// What is wrong.
        what: String,
    },
    /// No computations at all.
    #[error("the trace has no computations: no event has \"cat\":\"compute\" and \"ph\":\"X\"")]
    Empty,
    /// Two computations of a rank at the same time.
    #[error("step {step}, rank {rank}: {second} starts at {start} ns, before {first} ends at {end} ns")]
    Overlap {
        /// The step.
        step: u32,
        /// The rank.
        rank: Rank,
        /// What runs.
        first: Work,
        /// When it ends.
        end: u64,
        /// What starts before that.
        second: Work,
        /// When it does.
        start: u64,
    },
    /// A step so long that the times of all ranks together are no number.
    #[error("step {step} takes {length} ns, which is too long to be counted: `ts` and `dur` are microseconds")]
    TooLong {
        /// The step.
        step: u32,
        /// From its start to the end of its last computation, in nanoseconds.
        length: u64,
    },
    /// A step that is not in the trace.
    #[error("the trace has no step {step}; it has {}", several(known))]
    NoSuchStep {
        /// What was asked for.
        step: u32,
        /// What there is.
        known: Vec<u32>,
    },
    /// Something is missing from a step, is there too often, or ran before what it needs.
    #[error("step {step}: {source}")]
    Incomplete {
        /// The step.
        step: u32,
        /// What is wrong.
        source: OrderError,
    },
    /// A stage without anything to tell a cost from.
    #[error("no cost of stage {stage} can be told: the trace has {missing} of it")]
    NoCost {
        /// The stage.
        stage: Stage,
        /// What is not there.
        missing: &'static str,
    },
}

/// The first and the last of several numbers, or all of a few.
fn several(numbers: &[u32]) -> String {
    match numbers {
        [] => "none".to_owned(),
        [one] => format!("step {one}"),
        [first, .., last] => format!("{} steps, {first} to {last}", numbers.len()),
    }
}
