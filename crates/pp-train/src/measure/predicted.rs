//! What the simulator foretells from what stages took.

use pp_schedule::Program;
use pp_schedule::simulate::{Costs, Sends, StageCosts, Timeline, Unplayable};

use super::{Measured, StageTimes};

/// A tick is a nanosecond.
const TICKS_PER_MS: f64 = 1e6;

/// A step's program, simulated with the measured costs of every stage and messages that take no time. What it lacks of what
/// was measured is what messages, and the ranks' use of one machine, cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Predicted {
    /// Milliseconds of a step's program.
    pub program_ms: f64,
    /// The share of all ranks' time in it in which they compute nothing.
    pub bubble: f64,
    /// The same as a share of the time of the rank that takes longest from its own first computation to its own last.
    pub longest_stage_bubble: f64,
}

impl Predicted {
    /// Simulates a program.
    ///
    /// # Errors
    /// [`Unplayable`], which no verified program is.
    pub(crate) fn of(program: &Program, measured: &Measured) -> Result<Self, Unplayable> {
        let costs = Costs::per_stage(measured.stages.iter().map(costs_of).collect());
        let timeline = Timeline::of_program(program, &costs, Sends::Eager)?;
        Ok(Self {
            program_ms: timeline.makespan() as f64 / TICKS_PER_MS,
            bubble: timeline.bubble(),
            longest_stage_bubble: timeline.longest_stage_bubble(),
        })
    }
}

fn costs_of(times: &StageTimes) -> StageCosts {
    let ticks = |ms: Option<f64>| (ms.unwrap_or(0.0) * TICKS_PER_MS).round() as u64;
    StageCosts {
        forward: ticks(times.forward_ms),
        backward: ticks(times.backward_ms),
        backward_input: ticks(times.backward_input_ms),
        backward_weight: ticks(times.backward_weight_ms),
    }
}
