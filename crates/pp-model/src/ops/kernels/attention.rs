//! Causal self-attention over a packed `qkv` `[batch, seq, 3 * heads * head_dim]`, `q`, `k`, `v` one after the other.

use candle_core::Tensor;
use pp_kernels::attention::{AttentionShape, causal_backward, causal_forward};

use super::{blank, on_cpu, tensor};
use crate::error::Result;
use crate::ops::access::read;

const OP: &str = "attention";

/// The output `[batch, seq, heads * head_dim]` and the probabilities `[batch, heads, seq, seq]`.
pub(crate) fn attention(qkv: &Tensor, n_heads: usize) -> Result<(Tensor, Tensor)> {
    on_cpu!(OP, qkv, T => {
        let shape = shape_of(qkv, n_heads)?;
        let AttentionShape { batch, seq, heads, head_dim } = shape;
        let (mut out, mut probs) = (blank::<T>(shape.out_len()), blank::<T>(shape.probs_len()));
        causal_forward(&read::<T>(OP, qkv)?, &mut out, &mut probs, shape);
        Ok((tensor(out, &[batch, seq, heads * head_dim])?, tensor(probs, &[batch, heads, seq, seq])?))
    })
}

/// The gradient of `qkv`.
pub(crate) fn attention_backward(qkv: &Tensor, probs: &Tensor, dout: &Tensor, n_heads: usize) -> Result<Tensor> {
    on_cpu!(OP, qkv, T => {
        let shape = shape_of(qkv, n_heads)?;
        let mut dqkv = blank::<T>(shape.qkv_len());
        causal_backward(&read::<T>(OP, qkv)?, &read(OP, probs)?, &read(OP, dout)?, &mut dqkv, shape);
        tensor(dqkv, qkv.dims())
    })
}

fn shape_of(qkv: &Tensor, heads: usize) -> Result<AttentionShape> {
    let (batch, seq, width) = qkv.dims3()?;
    Ok(AttentionShape { batch, seq, heads, head_dim: width / (3 * heads) })
}
