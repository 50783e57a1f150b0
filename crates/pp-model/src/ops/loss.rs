//! Cross-entropy over a vocabulary, as a sum and a count: `logits` `[.., vocab]`, a label per row.

use candle_core::Tensor;
use pp_kernels::loss::{self as kernel, LossSum};

use super::access::{read, write};
use super::on_cpu;
use crate::error::Result;

const OP: &str = "cross-entropy";

/// The loss alone.
pub(crate) fn cross_entropy(logits: &Tensor, labels: &[i64]) -> Result<LossSum> {
    on_cpu!(OP, logits, T => Ok(kernel::cross_entropy::<T>(&read(OP, logits)?, labels, None)))
}

/// The loss, and in place of the logits the gradient of its sum.
pub(crate) fn cross_entropy_in_place(logits: &Tensor, labels: &[i64]) -> Result<LossSum> {
    on_cpu!(OP, logits, T => write(OP, logits, |logits: &mut [T]| kernel::cross_entropy_in_place(logits, labels)))
}
