//! What the workspace's tests share: the real binaries, jobs of them that cannot outlive their test, and a look at the
//! processes that a job has.

pub mod binaries;
pub mod job;
pub mod processes;
pub mod scratch;
pub mod stand_in;

pub use binaries::{Binaries, binaries};
pub use job::{Finished, Job};
pub use scratch::Scratch;

/// The code on the pages, compiled and run.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../README.md")]
    struct Readme;
    #[doc = include_str!("../../docs/schedules.md")]
    struct Schedules;
}
