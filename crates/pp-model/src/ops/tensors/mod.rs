//! Operations by the tensor library's own, for every device and number type that has no kernels of ours: CUDA, and `bf16` on the
//! CPU.
//!
//! * **`bf16`** is what products read and write (they accumulate in `f32`), and what is kept for backwards. Everything that sums,
//!   normalises, or takes exponentials is done in `f32` ([`wide`](super::way::wide)) and rounded once at its end.
//! * **Main gradients and moments** are of the wide type. A product for a main gradient is rounded to the narrow type once before
//!   it is added: the library has no product that accumulates into a matrix of another type.
//! * **In place** means that every handle of a tensor sees the change. Where the library has no operation that works in place, a
//!   fresh tensor is made and the two change memory ([`place`]): no copy, but for a moment there is one tensor more.
//! * **No operation waits for the device.** Shapes of views that are not contiguous go up with their kernels, a few bytes each.

mod attention;
mod elementwise;
mod embedding;
mod linear;
mod loss;
mod mask;
mod norm;
mod optim;
mod place;
mod sums;

pub(crate) use attention::{attention, attention_backward};
pub(crate) use elementwise::{add_assign, assign, fill_zero, gelu, gelu_backward};
pub(crate) use embedding::{embedding, embedding_backward};
pub(crate) use linear::{linear, linear_backward_input, linear_backward_weight};
pub(crate) use loss::{cross_entropy, cross_entropy_in_place};
pub use mask::CausalMask;
pub(crate) use norm::{layer_norm, layer_norm_backward_input, layer_norm_backward_weight};
pub(crate) use optim::adamw;
pub(crate) use sums::sum_of_squares;
