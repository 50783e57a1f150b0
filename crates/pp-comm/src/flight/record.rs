//! What a rank writes down: the form of `rank-N.json`, as it is written and read. docs/flight.schema.json states the same
//! as a JSON Schema.

use serde::{Deserialize, Serialize};

use super::cause::Cause;
use super::parts::{StateName, SubjectPart};

/// The version of the form. A reader refuses any other.
pub const FORMAT: u32 = 1;

/// A rank's flight record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RankRecord {
    /// The version of this form.
    pub format: u32,
    /// The run, as 32 hexadecimal digits; none within one process.
    pub run: Option<String>,
    /// The rank.
    pub rank: u32,
    /// How many ranks the run has.
    pub world: u32,
    /// Why it was written, in words.
    pub why: String,
    /// Why it was written, in parts.
    pub cause: Cause,
    /// When it was written.
    pub at: Moment,
    /// The action of its program that the rank was at; none outside a program.
    pub action: Option<u32>,
    /// For how many seconds nothing had happened that is kept; none where nothing ever did.
    pub quiet_seconds: Option<f64>,
    /// What it was in the midst of, outermost first: waits, collectives, computations. After a wait has failed: that wait.
    pub within: Vec<EventRecord>,
    /// Events that were forgotten because only so many are kept.
    pub n_forgotten: u64,
    /// What it did last, oldest first.
    pub events: Vec<EventRecord>,
    /// What every rank had last reported to this one; empty where nobody reports.
    pub heard: Vec<Heard>,
}

/// A moment, by two clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Moment {
    /// Microseconds since 1970, by the machine's calendar.
    pub unix_us: u64,
    /// Microseconds of the machine's monotonic clock, which all its processes share.
    pub monotonic_us: u64,
}

/// Something that happened on the rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct EventRecord {
    /// The step, where it belongs to one.
    pub step: Option<u64>,
    /// The place of the action in the rank's program; none outside a program.
    pub action: Option<u32>,
    /// What it is about, in parts.
    pub subject: SubjectPart,
    /// What it is about, in words.
    pub text: String,
    /// The rank at the other end, for a transfer.
    pub peer: Option<u32>,
    /// Bytes that travel, where any do.
    pub bytes: u64,
    /// How far it is.
    pub state: StateName,
    /// When: seconds before the record was written.
    pub seconds_before: f64,
    /// When: microseconds of the machine's monotonic clock.
    pub monotonic_us: u64,
}

/// What a rank had last reported when another wrote its record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Heard {
    /// The rank that reported.
    pub rank: u32,
    /// What it said it did last.
    pub text: String,
    /// How many seconds before the record it said so.
    pub seconds_before: f64,
}

/// How a rank's process ended, as whoever started it saw it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RankEnd {
    /// The rank.
    pub rank: u32,
    /// The signal that killed it, in words; none when it exited by itself, or was stopped because of another.
    pub killed_by: Option<String>,
    /// What it exited with, when it ended by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<i32>,
    /// It had not ended by itself when it was stopped because of another.
    #[serde(default)]
    pub stopped: bool,
}
