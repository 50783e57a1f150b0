//! What a run comes to.

use pp_comm::StepReport;
use pp_schedule::SlotClass;

use crate::device::Compute;
use crate::measure::{Measured, Predicted, SlowStage, median};
use crate::records::{IterationRecord, ValidationRecord};
use crate::stop::Stopped;

/// What a run gives; the same on every rank, wall times aside.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The training steps.
    pub iterations: Vec<IterationRecord>,
    /// The validations, the last one included.
    pub validations: Vec<ValidationRecord>,
    /// Loss of the last validation; none where a run was stopped before its first.
    pub validation_loss: Option<f64>,
    /// Why it ended before it was done, if it did.
    pub stopped: Option<Stopped>,
    /// What computed, and in which numbers.
    pub compute: Compute,
    /// The version of NCCL that messages went over, where they did.
    pub nccl: Option<String>,
    /// Entropy of the text's bytes one by one.
    pub unigram_entropy: f64,
    /// Hash of the weights before the first step.
    pub initial_fingerprint: u128,
    /// Hash of the weights after the last step.
    pub weights_fingerprint: u128,
    /// By rank.
    pub ranks: Vec<RankFigures>,
    /// Of the training steps' programs.
    pub steps: StepFigures,
}

/// What the programs of the training steps took, beside what was to be expected.
#[derive(Clone, Debug, PartialEq)]
pub struct StepFigures {
    /// What was measured; the same on every rank.
    pub measured: Measured,
    /// What the simulator makes of the costs that were measured; on rank 0 only.
    pub predicted: Option<Predicted>,
    /// Stages that are slow for what they hold, slowest first.
    pub slow: Vec<SlowStage>,
}

/// What a rank did with its time and memory.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RankFigures {
    /// Peak resident memory of its process, where the system tells it.
    pub peak_rss_mib: Option<f64>,
    /// Seconds of all its training steps.
    pub total_s: f64,
    /// Seconds in computations of the program.
    pub busy_s: f64,
    /// Seconds in which the program waited for messages.
    pub wait_s: f64,
    /// The most activations that were kept for their backward at once, in microbatches of one chunk.
    pub peak_saved: usize,
    /// The most weight gradients that were put off at once, in microbatches of one chunk.
    pub peak_deferred: usize,
    /// The most bytes of messages, in and out, that it held at once.
    pub peak_message_bytes: usize,
}

impl RankFigures {
    pub(crate) fn add(&mut self, report: &StepReport) {
        self.busy_s += report.compute.as_secs_f64();
        self.wait_s += (report.wait_send + report.wait_receive).as_secs_f64();
        self.peak_saved = self.peak_saved.max(report.peak(SlotClass::Saved));
        self.peak_deferred = self.peak_deferred.max(report.peak_deferred());
        self.peak_message_bytes = self.peak_message_bytes.max(report.peak_bytes() as usize);
    }

    /// The share of its training steps that it computed.
    pub fn busy_share(&self) -> f64 {
        share(self.busy_s, self.total_s)
    }

    /// The share of its training steps that it waited.
    pub fn wait_share(&self) -> f64 {
        share(self.wait_s, self.total_s)
    }
}

impl Outcome {
    /// Tokens per second of the median step.
    pub fn median_tokens_per_s(&self) -> f64 {
        median(self.iterations.iter().map(|record| record.tokens_per_s).collect())
    }

    /// All tokens over the time of all training steps, validation not counted.
    pub fn overall_tokens_per_s(&self) -> f64 {
        let tokens: u64 = self.iterations.iter().map(|record| record.tokens).sum();
        let seconds: f64 = self.iterations.iter().map(|record| record.step_ms / 1e3).sum();
        share(tokens as f64, seconds)
    }

    /// The share of all ranks' training time that was spent waiting for another.
    pub fn wait_share(&self) -> f64 {
        let sum = |part: fn(&RankFigures) -> f64| self.ranks.iter().map(part).sum::<f64>();
        share(sum(|rank| rank.wait_s), sum(|rank| rank.total_s))
    }
}

fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}
