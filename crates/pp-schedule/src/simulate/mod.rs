//! When each computation runs, and what follows from it: step time, bubble, waiting, critical path, memory.
//!
//! Two clocks, one result. [`Timeline::of_order`] plays out an order by its dependencies alone: a message is there a fixed
//! time after it was made, and nothing ever stands in a queue. [`Timeline::of_program`] plays out a program action by
//! action: receives are posted as far ahead as its policy has them, transfers stand in their channels' queues, a rank
//! waits for a buffer to be free. Where everything is posted ahead and channels take no time, both give the same.
//!
//! Time is counted in ticks, whole numbers of a unit that the caller chooses, so that figures are exact and the same
//! everywhere.

mod costs;
mod critical_path;
mod memory;
mod order;
mod program;
mod report;
mod timeline;

pub use costs::{Costs, Link, Scale, StageCosts};
pub use critical_path::{CriticalPath, critical_path};
pub use memory::{Level, StageBytes, levels};
pub use order::Stuck;
pub use program::{Sends, Unplayable};
pub use report::{RankReport, Report};
pub use timeline::{After, Flight, Span, Timeline};
