//! The flight recorder: what a rank did last, kept at all times and written down when something goes wrong.

mod recorder;

pub use recorder::{Event, Recorder, State, Subject};
