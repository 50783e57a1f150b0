//! Causal self-attention over a packed `qkv` `[batch, seq, 3 * heads * head_dim]`, `q`, `k`, `v` one after the other.
//!
//! Scores are rounded to the number type of `qkv` by their product, then scaled, masked and normalised in the wide type.

use candle_core::{D, Tensor};

use super::mask::CausalMask;
use crate::error::Result;
use crate::ops::way::wide;

/// The output `[batch, seq, heads * head_dim]` and the probabilities `[batch, heads, seq, seq]`.
pub(crate) fn attention(qkv: &Tensor, n_heads: usize, mask: &CausalMask) -> Result<(Tensor, Tensor)> {
    let packed = Packed::new(qkv, n_heads)?;
    let Packed { batch, seq, head_dim, .. } = packed;
    let scores = packed.part(0)?.matmul(&packed.part(1)?.t()?)?;
    let mask = mask.get(seq, wide(qkv.dtype()), qkv.device())?;
    let scores = scores.to_dtype(mask.dtype())?.affine(packed.scale(), 0.0)?.broadcast_add(&mask)?;
    let powers = scores.broadcast_sub(&scores.max_keepdim(D::Minus1)?)?.exp()?;
    drop(scores);
    let probs = powers.broadcast_div(&powers.sum_keepdim(D::Minus1)?)?.to_dtype(qkv.dtype())?;
    drop(powers);
    let out = probs.matmul(&packed.part(2)?)?;
    let out = out.reshape((batch, n_heads, seq, head_dim))?.transpose(1, 2)?.contiguous()?;
    Ok((out.reshape((batch, seq, n_heads * head_dim))?, probs.reshape((batch, n_heads, seq, seq))?))
}

/// The gradient of `qkv`: with `p` the probabilities and `dp = dout vᵀ`, `dv = pᵀ dout`, `ds = p (dp - sum(p dp))`, `dq = ds k`,
/// `dk = dsᵀ q`, scaled.
pub(crate) fn attention_backward(qkv: &Tensor, probs: &Tensor, dout: &Tensor, n_heads: usize) -> Result<Tensor> {
    let packed = Packed::new(qkv, n_heads)?;
    let Packed { batch, seq, head_dim, .. } = packed;
    let probs = probs.reshape((batch * n_heads, seq, seq))?;
    let dout = dout.reshape((batch, seq, n_heads, head_dim))?.transpose(1, 2)?.contiguous()?;
    let dout = dout.reshape((batch * n_heads, seq, head_dim))?;
    let dv = probs.t()?.matmul(&dout)?;
    let dprobs = dout.matmul(&packed.part(2)?.t()?)?.to_dtype(wide(qkv.dtype()))?;
    drop(dout);
    let probs = probs.to_dtype(dprobs.dtype())?;
    let centre = dprobs.mul(&probs)?.sum_keepdim(D::Minus1)?;
    let dscores = dprobs.broadcast_sub(&centre)?.mul(&probs)?;
    drop((dprobs, probs));
    let dscores = dscores.affine(packed.scale(), 0.0)?.to_dtype(qkv.dtype())?;
    let dq = dscores.matmul(&packed.part(1)?)?;
    let dk = dscores.t()?.matmul(&packed.part(0)?)?;
    drop(dscores);
    let parts = [dq, dk, dv].map(|part| packed.by_position(part));
    let [dq, dk, dv] = parts;
    Ok(Tensor::cat(&[dq?, dk?, dv?], D::Minus1)?)
}

/// A packed `qkv` and its sizes.
struct Packed<'a> {
    qkv: &'a Tensor,
    batch: usize,
    seq: usize,
    heads: usize,
    head_dim: usize,
}

impl<'a> Packed<'a> {
    fn new(qkv: &'a Tensor, heads: usize) -> Result<Self> {
        let (batch, seq, width) = qkv.dims3()?;
        Ok(Self { qkv, batch, seq, heads, head_dim: width / (3 * heads) })
    }

    /// What scores are multiplied with.
    fn scale(&self) -> f64 {
        1.0 / (self.head_dim as f64).sqrt()
    }

    /// Queries (0), keys (1) or values (2), head by head: a copy, `[batch * heads, seq, head_dim]`.
    fn part(&self, which: usize) -> Result<Tensor> {
        let Self { batch, seq, heads, head_dim, .. } = *self;
        let by_position = self.qkv.reshape((batch, seq, 3 * heads, head_dim))?.narrow(2, which * heads, heads)?;
        let by_head = by_position.transpose(1, 2)?.contiguous()?;
        Ok(by_head.reshape((batch * heads, seq, head_dim))?)
    }

    /// Back from heads to positions: `[batch, seq, heads * head_dim]`.
    fn by_position(&self, part: Tensor) -> Result<Tensor> {
        let Self { batch, seq, heads, head_dim, .. } = *self;
        let by_position = part.reshape((batch, heads, seq, head_dim))?.transpose(1, 2)?.contiguous()?;
        Ok(by_position.reshape((batch, seq, heads * head_dim))?)
    }
}
