//! GPT-2 in pipeline chunks, with explicit forward and backward on candle tensors.
//!
//! One microbatch's way down through this crate, and up again in its backward:
//!
//! | room | what is in it |
//! |---|---|
//! | [`check`] | every operation on a device against the CPU in `f64` |
//! | `cuda` | a rank's GPU, with the feature `cuda` |
//! | [`stage`] | [`GptStage`]: a rank's chunks, as the executor calls them; slots, messages, losses |
//! | [`chunk`] | [`GptChunk`]: the layers of one stage, embedding and head where they belong |
//! | [`layers`] | linear, norm, attention, MLP, block, embedding, head, each with its backward in two parts |
//! | [`param`] | a parameter: value, main gradient, AdamW in place |
//! | [`inputs`] | a microbatch's inputs where the layers read them |
//! | `ops` | operations on tensors, by device and number type: `pp-kernels` over the tensors' memory, or candle's own |
//! | [`catalog`], [`init`] | which parameters there are, and their first values |
//! | [`batch`], [`config`] | a microbatch's inputs, the model's shape |
//!
//! A room uses only those below it in this table.
//!
//! # Invariants
//!
//! * **No automatic differentiation.** candle's autograd is the oracle of the tests and never runs here.
//! * **The cut does not show.** First values are keyed by a parameter's place in the whole model, gradients are summed
//!   in the order backwards come, losses in ascending order: for the same order of backwards, every (pp, vp) has the
//!   same bits.
//! * **Gradients accumulate in place** into one main gradient per parameter, and are those of the *sum* of losses;
//!   whoever owns the step divides once.
//! * **The two gradients of a tied weight stay apart**, also on one rank, until [`GptStage::sum_tied_grad`] adds them.
//! * **State is moved, not copied**: what a forward saves is consumed by its backward and freed as it goes.
//! * **First values do not depend on the device**, nor does what is accumulated on it: gradients, moments and the values that the
//!   optimizer updates are `f32` also where values and activations are `bf16`.
//! * **A step waits for a GPU once**, at its end, for the loss and the gradient's squares together ([`GptStage::take_sums`]).
//!
//! What is absent: communication, schedules, the optimizer's policy, checkpoint files, dropout. What only runs on a GPU stands in
//! files of its own (`cuda`, `ops/cuda`, `stage/wire/device`), and has not run on one yet.

pub mod batch;
pub mod catalog;
pub mod check;
pub mod chunk;
pub mod config;
#[cfg(feature = "cuda")]
pub mod cuda;
mod error;
pub mod init;
pub mod inputs;
pub mod layers;
mod ops;
pub mod param;
pub mod stage;

pub use batch::MicroBatch;
pub use candle_core::{DType, Device, Tensor};
pub use chunk::{ChunkSpec, GptChunk, Numbers};
pub use config::{GptConfig, GptOptions};
pub use error::{ConfigError, ModelError, Result};
pub use inputs::Inputs;
pub use ops::Loss;
pub use param::{Moments, Param};
pub use pp_kernels::{AdamW, LossSum, loss::IGNORE};
pub use stage::GptStage;
