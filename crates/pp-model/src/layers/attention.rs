//! Causal multi-head self-attention with its projections.

use candle_core::Tensor;

use super::Layer;
use super::linear::{Linear, LinearSaved, LinearWork};
use crate::error::Result;
use crate::ops::{self, CausalMask};
use crate::param::Param;

/// `x` -> queries, keys and values in one matrix -> attention -> projection.
#[derive(Debug)]
pub struct Attention {
    qkv: Linear,
    proj: Linear,
    n_heads: usize,
    mask: CausalMask,
}

/// What [`Attention`] keeps.
#[derive(Debug)]
pub struct AttentionSaved {
    x: LinearSaved,
    /// `[batch, seq, 3 * hidden]`.
    qkv: Tensor,
    /// `[batch, heads, seq, seq]`.
    probs: Tensor,
    mixed: LinearSaved,
}

/// What is left to do for the projections of [`Attention`].
#[derive(Debug)]
pub struct AttentionWork {
    qkv: LinearWork,
    proj: LinearWork,
}

impl Attention {
    /// From `qkv` (`[3 * hidden, hidden]`: queries, keys, values; each head by head) and `proj` (`[hidden, hidden]`). Layers may
    /// share a mask.
    pub fn new(qkv: Linear, proj: Linear, n_heads: usize, mask: CausalMask) -> Self {
        Self { qkv, proj, n_heads, mask }
    }
}

impl Layer for Attention {
    type Saved = AttentionSaved;
    type Work = AttentionWork;

    fn forward(&self, x: Tensor) -> Result<(Tensor, AttentionSaved)> {
        let (qkv, x) = self.qkv.forward(x)?;
        let (mixed, probs) = ops::attention(&qkv, self.n_heads, &self.mask)?;
        let (y, mixed) = self.proj.forward(mixed)?;
        Ok((y, AttentionSaved { x, qkv, probs, mixed }))
    }

    fn backward_input(&self, saved: AttentionSaved, dy: Tensor) -> Result<(Tensor, AttentionWork)> {
        let AttentionSaved { x, qkv, probs, mixed } = saved;
        let (dmixed, proj) = self.proj.backward_input(mixed, dy)?;
        let dqkv = ops::attention_backward(&qkv, &probs, &dmixed, self.n_heads)?;
        drop((qkv, probs, dmixed));
        let (dx, qkv) = self.qkv.backward_input(x, dqkv)?;
        Ok((dx, AttentionWork { qkv, proj }))
    }

    fn backward_weight(&mut self, work: AttentionWork) -> Result<()> {
        self.proj.backward_weight(work.proj)?;
        self.qkv.backward_weight(work.qkv)
    }

    fn params(&self) -> Vec<&Param> {
        [self.qkv.params(), self.proj.params()].concat()
    }

    fn params_mut(&mut self) -> Vec<&mut Param> {
        let mut params = self.qkv.params_mut();
        params.extend(self.proj.params_mut());
        params
    }
}
