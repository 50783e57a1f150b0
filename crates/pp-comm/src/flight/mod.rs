//! The flight recorder: what a rank did last, kept at all times, written down when something goes wrong, and read again to
//! say what went wrong and where.
//!
//! [`Recorder`] keeps events; [`RankRecord`] is what a rank writes of them ([`RankRecord::write`]), and [`Records`] what is
//! read back from all ranks; [`explain`] finds the rank and the action that the failure came from.

mod cause;
mod dump;
mod explain;
mod parts;
mod read;
mod record;
mod recorder;
#[cfg(test)]
mod tests;
mod trigger;

pub use cause::{BoundaryPart, Cause};
pub use dump::Report;
pub use explain::{Blocked, Explanation, Verdict, explain};
pub use parts::{ChannelPart, LabelPart, RoleName, StateName, SubjectPart, Way};
pub use read::{ReadError, Records, write_ends};
pub use record::{EventRecord, FORMAT, Heard, Moment, RankEnd, RankRecord};
pub use recorder::{Event, Recorder, Run, State, Subject};
pub(crate) use trigger::{Blow, Trigger};
