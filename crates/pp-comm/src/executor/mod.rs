//! The executor: runs one rank's program, action by action. It knows no schedule; whatever one says is in the program.

mod agree;
mod fault;
mod recording;
mod report;
mod run;
mod slots;
mod spec;
mod stage;

use pp_schedule::CertifiedProgram;

use crate::endpoint::Endpoint;
pub use agree::agree;
pub use fault::{ExecError, ExecFault};
pub use recording::{Did, Recording, Span};
pub use report::StepReport;
pub use spec::{Boundaries, StepSpec};
pub use stage::{StageCompute, Task};

/// Runs one step of a rank's program.
///
/// # Errors
/// [`ExecError`], which says where in the program the rank was, with the reason as its source. The endpoint cannot be
/// used for another step after that: drop it, so that the other ranks learn of it.
pub fn execute<S: StageCompute>(
    program: &CertifiedProgram,
    spec: StepSpec<'_>,
    endpoint: &mut Endpoint,
    stage: &mut S,
) -> Result<StepReport, ExecError> {
    run::run(program, spec, endpoint, stage, &mut Recording::off())
}

/// As [`execute`], and keeps when what was done: a push per computation and wait, of times that are taken anyway.
///
/// # Errors
/// As [`execute`]; the recording then holds what was done before.
pub fn execute_recorded<S: StageCompute>(
    program: &CertifiedProgram,
    spec: StepSpec<'_>,
    endpoint: &mut Endpoint,
    stage: &mut S,
    recording: &mut Recording,
) -> Result<StepReport, ExecError> {
    run::run(program, spec, endpoint, stage, recording)
}
