//! Which schedule to run: every candidate predicted, ranked, and those that lose told why.
//!
//! [`Model`] says what each layer costs, keeps and weighs: [`GptShape`] estimates one, [`measured()`] takes its times from
//! the stages of a step that ran. [`plan()`] cuts the layers for every schedule, number of chunks, group size and way to
//! recompute ([`crate::LayerPartition::balanced`]), adds up what each rank holds at its fullest, and simulates a step of
//! those that fit, unless what they take at least is too long already.
//!
//! What is left out: time to load batches and to run the optimizer; fragmentation of memory and what kernels take for a
//! while, but for layers computed again; links that several messages share, but for [`Request::play`].
//!
//! ```
//! use pp_schedule::plan::{Batch, Layer, Machine, Model, Part, Request, Way, plan};
//!
//! // Eight equal layers of 1 ms forward and 2 ms backward, no memory to mind: chunks make the bubble small.
//! let part = Part { forward: 1_000_000, backward_input: 1_000_000, backward_weight: 1_000_000, ..Part::default() };
//! let model = Model { layers: vec![Layer { part, ..Layer::default() }; 8], ..Model::default() };
//! let mut request = Request::new(model, vec![Way::new(4, 1, Batch::Microbatches(8))], Machine::default());
//! request.kinds = ["1f1b", "gpipe", "interleaved"].map(|name| name.parse().unwrap()).to_vec();
//! let plan = plan(&request)?;
//! let best = &plan.fits[0];
//! assert_eq!(best.candidate.config.kind().name(), "interleaved");
//! assert_eq!((best.candidate.config.vp(), best.step), (2, 57_000_000));
//! # Ok::<(), pp_schedule::plan::PlanError>(())
//! ```

mod bound;
mod candidate;
mod error;
mod gpt;
mod measured;
mod memory;
mod model;
mod request;
mod search;
mod stages;

pub use candidate::{Candidate, Family, Refused};
pub use error::{PlanError, Rule};
pub use gpt::{GptError, GptRun, GptShape, Keeps, Operations, Precision};
pub use measured::{MeasuredError, measured};
pub use memory::RankMemory;
pub use model::{Core, Layer, Model, Part, Recompute, UnknownRecompute, Weights};
pub use request::{Batch, GroupSizes, Request, Way};
pub use search::{Choice, Misfit, Plan, Simulation, plan};
pub use stages::{Machine, StageLoad, Stages};
