//! A pipeline step as HyperParallel contracts it: every rank calls it with the whole batch, and gets the loss if it has
//! the last stage.
//!
//! | promise | how |
//! |---|---|
//! | schedules by name | [`Schedule`]: `1f1b` (lowered by `stagger`), `gpipe` (lowered by `lanes`) |
//! | as many microbatches as the batch gives | its rows over the rows of a microbatch; a remainder is an error |
//! | every rank gets all inputs | each input has an owner, the stage that takes it; the others pass it over |
//! | loss on the last stage, zero elsewhere | [`StepOutcome`], which also keeps the loss of each microbatch |
//! | gradients averaged over microbatches | [`StageModule::average_gradients`], once |
//! | the last stage seeds its own gradient | with ones |
//! | nothing kept for longer than needed | an output belongs to its send; what a forward leaves goes to its backward;
//! inputs are cut when they are used |

mod error;
mod inputs;
mod module;
mod registry;
mod step;

pub use error::{ContractError, ModuleError};
pub use inputs::Batch;
pub use module::StageModule;
pub use registry::Schedule;
pub use step::{ContractSpec, PipelineStep, StepOutcome};
