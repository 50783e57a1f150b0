//! Timelines as Chrome traces, for Perfetto (<https://ui.perfetto.dev>) and `chrome://tracing`, and back.
//!
//! The file is JSON in the trace event format's object form. This crate's traces are version 1 of `pp-schedule trace`:
//!
//! | where | what |
//! |---|---|
//! | `otherData.format`, `.version` | `"pp-schedule trace"`, `1` |
//! | `otherData.title` | for people |
//! | `otherData.pp`, `.vp`, `.placement`, `.microbatches`, `.forward_only` | the extent; the placement is `loop` or `v` |
//! | `otherData.unit`, `.ns_per_unit` | the unit that times are told in, and how many nanoseconds of the trace it takes |
//! | `otherData.steps` | `{"step":0,"start_ns":0}` for each step: where its time 0 is |
//! | `pid`, `tid` | the rank; its lane: 0 computes, the others are named by `thread_name` events |
//! | events of `"cat":"compute"`, `"ph":"X"` | computations: `name` is the token as in every drawing (`2F0`), `ts` and `dur` are microseconds, `args.step` is the step (0 if missing) |
//! | events of `"cat":"extra"`, `"ph":"X"` | whatever else took time, such as waits: `args.step` and `args.lane` as above |
//! | events of `"cat":"message"` | messages between ranks, with flow events (`s`, `t`, `f`) from the computation that made them to the one that consumed them |
//! | events of `"ph":"C"` | counters of microbatches saved for backwards |
//!
//! A trace that was measured has nanoseconds for ticks. In one that was simulated a unit of cost takes a millisecond, unless
//! the unit is one of time itself. [`read()`] takes all of it but needs only the first three rows, `otherData.unit` aside, and
//! the computations: other events, of whatever tool, are skipped.
//!
//! ```
//! use pp_schedule::format::chrome;
//! use pp_schedule::simulate::{Costs, Scale, Timeline};
//! use pp_schedule::{Order, ScheduleConfig, ScheduleSpec};
//! let order = Order::generate(&ScheduleConfig::new(&ScheduleSpec::new(2, 1, 4)).unwrap());
//! let timeline = Timeline::of_order(&order, &Costs::UNIT).unwrap();
//! let text = chrome::to_string(&chrome::Trace::of("1f1b over 2 ranks", &timeline, &Scale::of_chunks(1))).unwrap();
//! let recorded = chrome::read(&text).unwrap();
//! // A unit took a millisecond, so a forward did.
//! assert_eq!(recorded.costs().unwrap().costs.stage(pp_schedule::Stage(0)).forward, 1_000_000);
//! assert_eq!(recorded.timeline(0).unwrap().bubble(), timeline.bubble());
//! ```

mod costs;
mod error;
mod events;
mod header;
mod lanes;
mod messages;
mod read;
mod recorded;
#[cfg(test)]
mod tests;
mod write;

use crate::ids::Rank;
use crate::simulate::{Scale, Timeline};

pub use costs::MeasuredCosts;
pub use error::ChromeError;
pub use read::read;
pub use recorded::{Recorded, RecordedSpan, RecordedStep};
pub use write::{to_string, write};

/// What such a trace says it is.
const FORMAT: &str = "pp-schedule trace";
/// Its version. A change that older readers would misread makes it larger.
const VERSION: u64 = 1;

/// What is written.
#[derive(Clone, Debug)]
pub struct Trace<'a> {
    /// For people: what was run.
    pub title: String,
    /// How many ticks of the timelines make which unit.
    pub scale: Scale,
    /// The steps, all over the same extent.
    pub steps: Vec<Step<'a>>,
    /// What else took time.
    pub extra: Vec<Extra>,
    /// Whether to write how much each rank has saved for its backwards.
    pub counters: bool,
}

/// A step of a trace.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// Its number.
    pub number: u32,
    /// Where, in the trace, the timeline's time 0 is, in ticks.
    pub start: u64,
    /// What it computed.
    pub timeline: &'a Timeline,
}

/// Something that takes time and is no computation: a wait, a send, the optimizer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Extra {
    /// The number of its step.
    pub step: u32,
    /// The rank.
    pub rank: Rank,
    /// In which lane of the rank it is shown, by name, such as `receive`. What overlaps in one lane is spread over several.
    pub lane: String,
    /// What it is, such as `wait for 1F0`.
    pub name: String,
    /// When it starts, in the trace's ticks (not from the step's own start); of what was read, in nanoseconds.
    pub start: u64,
    /// When it ends.
    pub end: u64,
}

impl<'a> Trace<'a> {
    /// A trace of one step, with counters.
    pub fn of(title: impl Into<String>, timeline: &'a Timeline, scale: &Scale) -> Self {
        Self {
            title: title.into(),
            scale: scale.clone(),
            steps: vec![Step { number: 0, start: 0, timeline }],
            extra: Vec::new(),
            counters: true,
        }
    }

    /// A trace whose ticks are nanoseconds that were measured, still without steps.
    pub fn measured(title: impl Into<String>) -> Self {
        Self { title: title.into(), scale: Scale::nanoseconds(), steps: Vec::new(), extra: Vec::new(), counters: true }
    }
}

/// Nanoseconds of the trace that a tick takes: what it takes in time if its unit is one of time, else such that a unit is
/// about a millisecond; a whole number, at least 1, so that no time is rounded.
fn ns_per_tick(scale: &Scale) -> u64 {
    let unit = match scale.unit.as_str() {
        "s" => 1e9,
        "us" | "µs" | "μs" => 1e3,
        "ns" => 1.0,
        _ => 1e6,
    };
    let exact = unit / scale.ticks_per_unit;
    // Of a scale without sense as well: the cast saturates, and of no number makes 0.
    (exact.round() as u64).max(1)
}
