//! Causal multi-head self-attention over a packed `qkv` (Vaswani et al. 2017, eq. 1).
//!
//! Per batch element and head, with `Q`, `K`, `V` `[seq, head_dim]`:
//! `P = softmax(Q Kᵀ / sqrt(head_dim))` over positions not after the row's own, `out = P V`.
//! Backward, with `dP = dout Vᵀ`: `dS = P ∘ (dP - rowsum(P ∘ dP))`, `dQ = dS K / sqrt(head_dim)`,
//! `dK = dSᵀ Q / sqrt(head_dim)`, `dV = Pᵀ dout`.
//!
//! One task does one head, in blocks of query rows: a block touches only the keys up to
//! its last row, so most of the upper triangle is never computed, and its scores are still in cache
//! when the softmax comes.

use rayon::prelude::*;

use crate::matmul::{MatMut, MatRef, SharedOutput, Threading, matmul};
use crate::par::check_len;
use crate::real::Real;
use crate::simd::{self, vectorized};

/// Query rows per block. A multiple of the lanes of a reduction, so that rows have no ragged ends.
const BLOCK: usize = 2 * simd::LANES;

/// Heads of fewer scores than this stay on the calling thread all together.
const SERIAL_BELOW: usize = 16 * 1024;

/// The sizes of an attention layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionShape {
    /// Sequences.
    pub batch: usize,
    /// Positions per sequence.
    pub seq: usize,
    /// Heads.
    pub heads: usize,
    /// Elements of a head's queries, keys and values.
    pub head_dim: usize,
}

impl AttentionShape {
    /// Elements of the packed input `[batch, seq, 3, heads, head_dim]`.
    pub fn qkv_len(&self) -> usize {
        3 * self.out_len()
    }

    /// Elements of the output `[batch, seq, heads * head_dim]`.
    pub fn out_len(&self) -> usize {
        self.batch * self.seq * self.width()
    }

    /// Elements of the probabilities `[batch, heads, seq, seq]`.
    pub fn probs_len(&self) -> usize {
        self.batch * self.heads * self.seq * self.seq
    }

    /// Elements of a position's output.
    fn width(&self) -> usize {
        self.heads * self.head_dim
    }

    /// The first element of a head's queries in the packed input; keys follow after `width`, values
    /// after twice that.
    fn qkv_start(&self, head_idx: usize) -> usize {
        let (batch_idx, head) = (head_idx / self.heads, head_idx % self.heads);
        batch_idx * self.seq * 3 * self.width() + head * self.head_dim
    }

    /// The first element of a head in the output.
    fn out_start(&self, head_idx: usize) -> usize {
        let (batch_idx, head) = (head_idx / self.heads, head_idx % self.heads);
        batch_idx * self.seq * self.width() + head * self.head_dim
    }

    /// Ranges of query rows, from the top.
    fn blocks(&self) -> impl Iterator<Item = (usize, usize)> {
        let seq = self.seq;
        (0..seq).step_by(BLOCK).map(move |first| (first, seq.min(first + BLOCK)))
    }

    /// The factor on scores, `1 / sqrt(head_dim)`.
    fn scale<T: Real>(&self) -> T {
        T::from_f64(1.0 / (self.head_dim as f64).sqrt())
    }

    fn pays_in_parallel(&self) -> bool {
        self.probs_len() >= SERIAL_BELOW && rayon::current_num_threads() > 1
    }
}

/// One head's part of the packed input.
struct Head<'a, T> {
    qkv: &'a [T],
    shape: AttentionShape,
}

impl<'a, T: Real> Head<'a, T> {
    fn new(qkv: &'a [T], head_idx: usize, shape: AttentionShape) -> Self {
        Self { qkv: &qkv[shape.qkv_start(head_idx)..], shape }
    }

    fn q(&self, first: usize, end: usize) -> MatRef<'a, T> {
        self.rows(0, first, end)
    }

    fn k(&self, end: usize) -> MatRef<'a, T> {
        self.rows(1, 0, end)
    }

    fn v(&self, end: usize) -> MatRef<'a, T> {
        self.rows(2, 0, end)
    }

    fn rows(&self, which: usize, first: usize, end: usize) -> MatRef<'a, T> {
        let width = self.shape.width();
        let start = first * 3 * width + which * width;
        MatRef::new(&self.qkv[start..], end - first, self.shape.head_dim, 3 * width)
    }
}

/// `out` `[batch, seq, heads * head_dim]` from `qkv` `[batch, seq, 3, heads, head_dim]`.
///
/// Keeps the softmax in `probs` `[batch, heads, seq, seq]`, zero above the diagonal, for the
/// backward pass. Overwrites both.
///
/// # Panics
/// When a length does not match `shape`.
pub fn causal_forward<T: Real>(qkv: &[T], out: &mut [T], probs: &mut [T], shape: AttentionShape) {
    check(qkv.len(), out.len(), probs.len(), shape);
    if probs.is_empty() {
        return;
    }
    let per_head = shape.seq * shape.seq;
    let out = SharedOutput::new(out);
    let one_head = |(head_idx, probs): (usize, &mut [T])| {
        forward_head(&Head::new(qkv, head_idx, shape), probs, &out, shape.out_start(head_idx));
    };
    if shape.pays_in_parallel() {
        probs.par_chunks_exact_mut(per_head).enumerate().for_each(one_head);
    } else {
        probs.chunks_exact_mut(per_head).enumerate().for_each(one_head);
    }
}

/// One head forward; its columns of `out` begin at `out_start`.
fn forward_head<T: Real>(head: &Head<'_, T>, probs: &mut [T], out: &SharedOutput<'_, T>, out_start: usize) {
    let shape = head.shape;
    let (seq, dim, width) = (shape.seq, shape.head_dim, shape.width());
    for (first, end) in shape.blocks() {
        let rows = end - first;
        let block = &mut probs[first * seq..end * seq];
        matmul(
            MatMut::new(block, rows, end, seq),
            false,
            shape.scale(),
            head.q(first, end),
            head.k(end).transposed(),
            Threading::Serial,
        );
        softmax_block(block, seq, first, end);
        // SAFETY: these rows and columns of `out` belong to this head alone, and one task does one
        // head, one block after the other.
        let out = unsafe { out.view(out_start + first * width, rows, dim, width) };
        let p = MatRef::new(block, rows, end, seq);
        matmul(out, false, T::ONE, p, head.v(end), Threading::Serial);
    }
}

vectorized! {
    /// Turns scores of the query rows `first..end` into probabilities, zero after each row's own
    /// position.
    fn softmax_block<'a, T: Real>[simd](block: &'a mut [T], seq: usize, first: usize, end: usize) {
        for (row, position) in block.chunks_exact_mut(seq).zip(first..) {
            let (row, beyond) = row.split_at_mut(end);
            row[position + 1..].fill(T::NEG_INFINITY);
            let top = T::largest(simd, row);
            for x in row.iter_mut() {
                *x = (*x - top).exp();
            }
            let inverse = T::ONE / T::sum(simd, row);
            for x in row.iter_mut() {
                *x = *x * inverse;
            }
            beyond.fill(T::ZERO);
        }
    }
}

/// The gradient of `qkv`: overwrites `dqkv`. `dout` has the shape of the output; `probs` are those
/// of the forward pass.
///
/// # Panics
/// When a length does not match `shape`.
pub fn causal_backward<T: Real>(qkv: &[T], probs: &[T], dout: &[T], dqkv: &mut [T], shape: AttentionShape) {
    check(qkv.len(), dout.len(), probs.len(), shape);
    check_len("dqkv", dqkv.len(), shape.qkv_len(), "[batch, seq, 3, heads, head_dim]");
    if probs.is_empty() {
        return;
    }
    let dqkv = SharedOutput::new(dqkv);
    let n_heads = shape.batch * shape.heads;
    let one_head = |scratch: &mut Vec<T>, head_idx: usize| {
        let per_head = shape.seq * shape.seq;
        let probs = &probs[head_idx * per_head..][..per_head];
        let dout = &dout[shape.out_start(head_idx)..];
        let head = Head::new(qkv, head_idx, shape);
        backward_head(&head, probs, dout, &dqkv, shape.qkv_start(head_idx), scratch);
    };
    let scratch = || vec![T::ZERO; BLOCK.min(shape.seq) * shape.seq];
    if shape.pays_in_parallel() {
        (0..n_heads).into_par_iter().for_each_init(scratch, one_head);
    } else {
        let mut scratch = scratch();
        (0..n_heads).for_each(|head_idx| one_head(&mut scratch, head_idx));
    }
}

/// One head backward; its columns of `dqkv` begin at `start`, `scratch` holds a block of scores.
///
/// Blocks go from the bottom up: the last one covers every key, so it overwrites `dK` and `dV` and
/// the others add to them.
fn backward_head<T: Real>(
    head: &Head<'_, T>,
    probs: &[T],
    dout: &[T],
    dqkv: &SharedOutput<'_, T>,
    start: usize,
    scratch: &mut [T],
) {
    let shape = head.shape;
    let (seq, dim, width) = (shape.seq, shape.head_dim, shape.width());
    let blocks: Vec<_> = shape.blocks().collect();
    for &(first, end) in blocks.iter().rev() {
        let rows = end - first;
        let add = end != seq;
        let p = &probs[first * seq..end * seq];
        let dout = MatRef::new(&dout[first * width..], rows, dim, width);

        let ds = &mut scratch[..rows * end];
        let v = head.v(end).transposed();
        matmul(MatMut::new(ds, rows, end, end), false, T::ONE, dout, v, Threading::Serial);
        softmax_backward_block(p, ds, seq, end);

        let ds = MatRef::new(ds, rows, end, end);
        let p = MatRef::new(p, rows, end, seq).transposed();
        let scale = shape.scale();
        // SAFETY: queries, keys and values of this head are disjoint columns of `dqkv` that belong
        // to it alone; one task does one head, and each view is gone when its product returns.
        let dq = unsafe { dqkv.view(start + first * 3 * width, rows, dim, 3 * width) };
        matmul(dq, false, scale, ds, head.k(end), Threading::Serial);
        // SAFETY: as above.
        let dk = unsafe { dqkv.view(start + width, end, dim, 3 * width) };
        matmul(dk, add, scale, ds.transposed(), head.q(first, end), Threading::Serial);
        // SAFETY: as above.
        let dv = unsafe { dqkv.view(start + 2 * width, end, dim, 3 * width) };
        matmul(dv, add, T::ONE, p, dout, Threading::Serial);
    }
}

vectorized! {
    /// `ds = p ∘ (ds - rowsum(p ∘ ds))`, where rows of `ds` are `end` long and those of `p` `seq`.
    fn softmax_backward_block<'a, T: Real>[simd](p: &'a [T], ds: &'a mut [T], seq: usize, end: usize) {
        for (ds, p) in ds.chunks_exact_mut(end).zip(p.chunks_exact(seq)) {
            let p = &p[..end];
            let mean = T::dot(simd, p, ds);
            for (ds, &p) in ds.iter_mut().zip(p) {
                *ds = p * (*ds - mean);
            }
        }
    }
}

/// Panics unless the lengths match `shape`.
#[track_caller]
fn check(qkv: usize, out: usize, probs: usize, shape: AttentionShape) {
    check_len("qkv", qkv, shape.qkv_len(), "[batch, seq, 3, heads, head_dim]");
    check_len("the output or its gradient", out, shape.out_len(), "[batch, seq, heads * head_dim]");
    check_len("probs", probs, shape.probs_len(), "[batch, heads, seq, seq]");
}
