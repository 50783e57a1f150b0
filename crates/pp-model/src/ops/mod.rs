//! Operations on tensors, each with its backward parts: the only place that knows devices and number types.
//!
//! | device | how | room |
//! |---|---|---|
//! | CPU, `f32` and `f64` | `pp-kernels` over the tensors' own memory | `kernels` |
//! | CPU, `bf16`; CUDA, `f32`, `f64` and `bf16` | the tensor library's own operations | `tensors` |
//! | everything else | [`crate::ModelError::Unsupported`]; an operation gains a device here, nothing above changes | |
//!
//! Tensors are contiguous by construction. Shapes are those of the layer that calls: what comes from outside is
//! checked at the [stage](crate::stage), so a mismatch here is a bug and the kernels panic with the sizes.
//! Results are fresh tensors; what accumulates or works in place says so in its name or its first line.

pub(crate) mod access;
mod cuda;
mod ids;
mod kernels;
pub(crate) mod lend;
mod loss;
mod number;
pub(crate) mod set;
mod shape;
mod stats;
mod tensors;
mod way;

use candle_core::Tensor;
use pp_kernels::AdamW;

use crate::error::Result;

pub(crate) use ids::{Labels, Tokens};
pub use loss::Loss;
pub(crate) use number::{Number, fetch};
pub(crate) use stats::NormStats;
pub use tensors::CausalMask;
pub(crate) use way::{Way, wide};

/// Calls one of the two implementations of an operation, as its first tensor asks for.
macro_rules! either {
    ($op:literal, $tensor:expr, $name:ident($($argument:expr),*)) => {
        match Way::of($op, $tensor)? {
            Way::Kernels => kernels::$name($($argument),*),
            Way::Tensors => tensors::$name($($argument),*),
        }
    };
}

/// `y = x wᵀ + b`: `x` `[.., i]`, `w` `[o, i]`, `b` `[o]`, `y` `[.., o]`.
pub(crate) fn linear(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    either!("linear", x, linear(x, weight, bias))
}

/// `dx = dy w` of [`linear`].
pub(crate) fn linear_backward_input(dy: &Tensor, weight: &Tensor) -> Result<Tensor> {
    either!("linear", dy, linear_backward_input(dy, weight))
}

/// `dw += dyᵀ x` and `db += ` the sum of the rows of `dy`, both in place.
pub(crate) fn linear_backward_weight(dy: &Tensor, x: &Tensor, dw: &Tensor, db: Option<&Tensor>) -> Result<()> {
    either!("linear", dy, linear_backward_weight(dy, x, dw, db))
}

/// Layer normalisation over the last dimension, `x` and `y` `[.., h]`, `gamma` and `beta` `[h]`; and the statistics of the rows.
pub(crate) fn layer_norm(x: &Tensor, gamma: &Tensor, beta: &Tensor, eps: f64) -> Result<(Tensor, NormStats)> {
    either!("layer norm", x, layer_norm(x, gamma, beta, eps))
}

/// `dx` of [`layer_norm`].
pub(crate) fn layer_norm_backward_input(dy: &Tensor, x: &Tensor, gamma: &Tensor, stats: &NormStats) -> Result<Tensor> {
    either!("layer norm", dy, layer_norm_backward_input(dy, x, gamma, stats))
}

/// Accumulates the gradients of `gamma` and `beta` in place.
pub(crate) fn layer_norm_backward_weight(
    dy: &Tensor,
    x: &Tensor,
    stats: &NormStats,
    dgamma: &Tensor,
    dbeta: &Tensor,
) -> Result<()> {
    either!("layer norm", dy, layer_norm_backward_weight(dy, x, stats, dgamma, dbeta))
}

/// Causal self-attention over a packed `qkv` `[batch, seq, 3 * heads * head_dim]`: the output `[batch, seq, heads * head_dim]` and
/// the probabilities `[batch, heads, seq, seq]`.
pub(crate) fn attention(qkv: &Tensor, n_heads: usize, mask: &CausalMask) -> Result<(Tensor, Tensor)> {
    match Way::of("attention", qkv)? {
        Way::Kernels => kernels::attention(qkv, n_heads),
        Way::Tensors => tensors::attention(qkv, n_heads, mask),
    }
}

/// The gradient of `qkv`.
pub(crate) fn attention_backward(qkv: &Tensor, probs: &Tensor, dout: &Tensor, n_heads: usize) -> Result<Tensor> {
    either!("attention", qkv, attention_backward(qkv, probs, dout, n_heads))
}

/// GELU in its tanh form.
pub(crate) fn gelu(x: &Tensor) -> Result<Tensor> {
    either!("gelu", x, gelu(x))
}

/// `dx` of GELU.
pub(crate) fn gelu_backward(x: &Tensor, dy: &Tensor) -> Result<Tensor> {
    either!("gelu", x, gelu_backward(x, dy))
}

/// Token plus position embedding of `tokens` `[batch * seq]`: `wte` `[vocab, h]`, `wpe` `[>= seq, h]`, `y` `[batch, seq, h]`.
pub(crate) fn embedding(tokens: &Tokens, seq: usize, wte: &Tensor, wpe: &Tensor) -> Result<Tensor> {
    either!("embedding", wte, embedding(tokens, seq, wte, wpe))
}

/// Accumulates the gradients of both tables in place.
pub(crate) fn embedding_backward(tokens: &Tokens, dy: &Tensor, dwte: &Tensor, dwpe: &Tensor) -> Result<()> {
    either!("embedding", dy, embedding_backward(tokens, dy, dwte, dwpe))
}

/// The loss of `logits` `[.., vocab]` against a label per row.
pub(crate) fn cross_entropy(logits: &Tensor, labels: &Labels) -> Result<Loss> {
    either!("cross-entropy", logits, cross_entropy(logits, labels))
}

/// The loss, and in place of the logits the gradient of its sum.
pub(crate) fn cross_entropy_in_place(logits: &Tensor, labels: &Labels) -> Result<Loss> {
    either!("cross-entropy", logits, cross_entropy_in_place(logits, labels))
}

/// `a += b` in place.
pub(crate) fn add_assign(a: &Tensor, b: &Tensor) -> Result<()> {
    either!("add", a, add_assign(a, b))
}

/// `a = b` in place, rounded to the number type of `a`.
pub(crate) fn assign(a: &Tensor, b: &Tensor) -> Result<()> {
    either!("assign", a, assign(a, b))
}

/// `a = 0` in place.
pub(crate) fn fill_zero(a: &Tensor) -> Result<()> {
    either!("fill", a, fill_zero(a))
}

/// The sum of squares.
pub(crate) fn sum_of_squares(a: &Tensor) -> Result<Number> {
    either!("sum of squares", a, sum_of_squares(a))
}

/// Updates `value` and its moments `m` and `v` in place; all of one shape.
pub(crate) fn adamw(value: &Tensor, grad: &Tensor, m: &Tensor, v: &Tensor, hyper: AdamW) -> Result<()> {
    either!("AdamW", value, adamw(value, grad, m, v, hyper))
}
