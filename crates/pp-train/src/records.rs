//! The records of a run, as the metrics file has them.

use serde::Serialize;

use crate::measure::StageTimes;

/// One training step. `iteration` counts from 1, like the lines on the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct IterationRecord {
    /// The step.
    pub iteration: u32,
    /// Mean loss over its tokens, in nats.
    pub loss: f64,
    /// Norm of the whole gradient before clipping.
    pub grad_norm: f64,
    /// Learning rate.
    pub lr: f64,
    /// Tokens that the loss counted.
    pub tokens: u64,
    /// Wall time on rank 0, in milliseconds.
    pub step_ms: f64,
    /// Tokens per second.
    pub tokens_per_s: f64,
}

/// One validation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ValidationRecord {
    /// The training steps done before it.
    pub iteration: u32,
    /// Mean loss over the tokens validated on, in nats.
    pub validation_loss: f64,
}

/// The last line.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FinalRecord {
    /// Always true: what marks the line.
    pub r#final: bool,
    /// The signal that stopped the run before it was done, such as `SIGTERM`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped_by: Option<&'static str>,
    /// What computed: `cpu` or `cuda`.
    pub device: &'static str,
    /// In which numbers: `f32` or `bf16`.
    pub dtype: &'static str,
    /// The version of NCCL that messages went over, where they did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nccl: Option<String>,
    /// Loss of the last validation; none where a run was stopped before its first.
    pub validation_loss: Option<f64>,
    /// Entropy of the text's bytes one by one, in nats.
    pub unigram_entropy: f64,
    /// Median over the steps.
    pub tokens_per_s: f64,
    /// Hash of all weights.
    pub weights_fingerprint: String,
    /// Peak resident memory of each rank, where the system tells it.
    pub peak_rss_mib: Vec<Option<f64>>,
    /// The most activations that each rank kept at once, in microbatches of one chunk.
    pub peak_saved: Vec<usize>,
    /// The most weight gradients that each rank put off at once, in microbatches of one chunk.
    pub peak_deferred: Vec<usize>,
    /// The most bytes of messages, in and out, that each rank held at once in a training step.
    pub peak_message_bytes: Vec<usize>,
    /// Milliseconds of a training step's program, from the first computation of any rank to the last.
    pub program_ms: f64,
    /// The share of all ranks' time in that in which they computed nothing.
    pub bubble: f64,
    /// The same as a share of the longest time from a rank's own first computation to its own last.
    pub longest_stage_bubble: f64,
    /// What the simulator makes of the stages' times, with messages that take no time: milliseconds of the program.
    pub predicted_program_ms: Option<f64>,
    /// Its bubble.
    pub predicted_bubble: Option<f64>,
    /// The same as a share of the longest stage time.
    pub predicted_longest_stage_bubble: Option<f64>,
    /// What each stage took.
    pub stages: Vec<StageTimes>,
    /// Stages that are slow for what they hold, slowest first.
    pub slow_stages: Vec<u32>,
}
