//! The layers, each written once with an explicit backward in two parts.
//!
//! `forward` returns what `backward_input` will need, and no more; `backward_input` uses it up and returns what is left
//! to do for the weights; `backward_weight` uses that up, adding to the main gradients. So state is freed as it is
//! consumed, input and weight gradients can be scheduled apart, and a full backward is one after the other.
//!
//! Activations are `[batch, seq, hidden]`, of the parameters' number type, contiguous.

mod attention;
mod block;
mod embedding;
mod head;
mod layer_norm;
mod linear;
mod mlp;

use candle_core::Tensor;

use crate::error::Result;
use crate::param::Param;

pub use crate::ops::CausalMask;
pub use attention::{Attention, AttentionSaved, AttentionWork};
pub use block::{Block, BlockSaved, BlockWork};
pub use embedding::Embedding;
pub use head::{Head, HeadSaved, HeadWork};
pub use layer_norm::{LayerNorm, LayerNormSaved, LayerNormWork};
pub use linear::{Linear, LinearSaved, LinearWork};
pub use mlp::{Mlp, MlpSaved, MlpWork};

/// A layer from activation to activation. [`Embedding`] and [`Head`] have the same parts, with other ends.
pub trait Layer {
    /// What a forward keeps for its backward.
    type Saved;
    /// What an input gradient leaves to do for the weights.
    type Work;

    /// The output, and what the backward needs.
    fn forward(&self, x: Tensor) -> Result<(Tensor, Self::Saved)>;

    /// The gradient of the input from that of the output, and what is left to do for the weights.
    fn backward_input(&self, saved: Self::Saved, dy: Tensor) -> Result<(Tensor, Self::Work)>;

    /// Adds to the gradients of the weights.
    fn backward_weight(&mut self, work: Self::Work) -> Result<()>;

    /// The parameters, in canonical order.
    fn params(&self) -> Vec<&Param>;

    /// The parameters, in canonical order, to change.
    fn params_mut(&mut self) -> Vec<&mut Param>;
}
