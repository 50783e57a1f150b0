//! Cross-entropy over a vocabulary, as a sum and a count: `logits` `[.., vocab]`, a label per row.

use candle_core::Tensor;
use pp_kernels::loss as kernel;

use super::on_cpu;
use crate::error::Result;
use crate::ops::access::{read, write};
use crate::ops::ids::Labels;
use crate::ops::loss::Loss;

const OP: &str = "cross-entropy";

/// The loss alone.
pub(crate) fn cross_entropy(logits: &Tensor, labels: &Labels) -> Result<Loss> {
    on_cpu!(OP, logits, T => {
        let labels = labels.on_host(OP)?;
        Ok(kernel::cross_entropy::<T>(&read(OP, logits)?, labels, None).into())
    })
}

/// The loss, and in place of the logits the gradient of its sum.
pub(crate) fn cross_entropy_in_place(logits: &Tensor, labels: &Labels) -> Result<Loss> {
    on_cpu!(OP, logits, T => {
        let labels = labels.on_host(OP)?;
        write(OP, logits, |logits: &mut [T]| kernel::cross_entropy_in_place(logits, labels).into())
    })
}
