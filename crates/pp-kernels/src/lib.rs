//! CPU kernels for transformer training: slices in, slices out.
//!
//! Every tensor is a contiguous row-major slice of [`Real`] (`f32` or `f64`), every shape an
//! argument. The layer above checks shapes and reports them to people; here a wrong length is a bug
//! and panics with the sizes in the message. Nothing is kept between calls.
//!
//! | module | what is in it |
//! |---|---|
//! | [`real`] | the number trait, with an `exp` that vectorises |
//! | [`matmul`] | strided matrix views and products over `gemm` |
//! | [`linear`] | `y = x wᵀ + b` and its three gradients |
//! | [`norm`] | layer normalisation |
//! | [`activation`] | GELU, tanh form |
//! | [`attention`] | causal self-attention over a packed `qkv` |
//! | [`embedding`] | token plus position embedding |
//! | [`loss`] | cross-entropy over a vocabulary |
//! | [`reduce`] | sums of squares, sums and scalings of whole tensors |
//! | [`optim`] | the AdamW update |
//!
//! # Invariants
//!
//! * **Thread-count independence.** Each result is bit-identical for any size of the rayon pool it
//!   runs in. Work is cut at places that follow from shapes alone, every output element is summed by
//!   one task in one order, and partial sums are added in index order. Small tensors skip rayon; that
//!   changes no result.
//! * **Lane independence.** Sums run over a fixed number of accumulators, whatever the vector width
//!   of the machine, and no multiply-add is fused outside `gemm`: the last elements of a slice round
//!   like the first, and all but matrix products is bit-identical between instruction sets.
//! * **No libm in `f32` inner loops.** `sqrt` is an instruction, `exp` is ours, and one `f64`
//!   logarithm is taken per row of logits.
//! * **Gradients of parameters accumulate**, gradients of activations overwrite.
//!
//! What is absent: shape inference, allocation of results, dropout, any notion of layer or device.

pub mod activation;
pub mod attention;
pub mod embedding;
pub mod linear;
pub mod loss;
pub mod matmul;
pub mod norm;
pub mod optim;
mod par;
pub mod real;
pub mod reduce;
mod simd;

pub use attention::AttentionShape;
pub use loss::LossSum;
pub use optim::AdamW;
pub use real::Real;
