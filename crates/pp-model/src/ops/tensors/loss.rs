//! Cross-entropy over a vocabulary, as a sum and a count: `logits` `[.., vocab]`, a label per row. In the wide type; the sum over
//! rows is in `f64` and stays on the device.

use candle_core::{D, DType, Tensor};

use super::place::replace;
use crate::error::Result;
use crate::ops::ids::Labels;
use crate::ops::loss::Loss;
use crate::ops::number::Number;
use crate::ops::shape::rows;
use crate::ops::way::wide;

const OP: &str = "cross-entropy";

/// The loss alone.
pub(crate) fn cross_entropy(logits: &Tensor, labels: &Labels) -> Result<Loss> {
    let powers = Powers::new(logits, labels)?;
    powers.loss(labels)
}

/// The loss, and in place of the logits the gradient of its sum: `softmax(logits) - onehot(label)`, zero where ignored.
pub(crate) fn cross_entropy_in_place(logits: &Tensor, labels: &Labels) -> Result<Loss> {
    let (index, counts, _) = labels.tensors(OP)?;
    let powers = Powers::new(logits, labels)?;
    let loss = powers.loss(labels)?;
    let Powers { powers, sum, .. } = powers;
    let gradient = powers.broadcast_mul(&counts.div(&sum)?)?;
    drop(powers);
    // No two of them in one row, so the order of additions is none.
    gradient.scatter_add_set(index, &counts.neg()?, D::Minus1)?;
    replace(logits, gradient.to_dtype(logits.dtype())?.reshape(logits.dims())?)?;
    Ok(loss)
}

/// Of each row, what a softmax is made of.
struct Powers {
    /// `exp(logit - top)`, `[rows, vocab]`.
    powers: Tensor,
    /// Their sum, `[rows, 1]`.
    sum: Tensor,
    /// `logit - top` of the label, `[rows, 1]`.
    label: Tensor,
}

impl Powers {
    fn new(logits: &Tensor, labels: &Labels) -> Result<Self> {
        let (index, ..) = labels.tensors(OP)?;
        let values = logits.reshape(rows(logits))?.to_dtype(wide(logits.dtype()))?;
        let below = values.broadcast_sub(&values.max_keepdim(D::Minus1)?)?;
        drop(values);
        let label = below.gather(index, D::Minus1)?;
        let powers = below.exp()?;
        drop(below);
        Ok(Self { sum: powers.sum_keepdim(D::Minus1)?, powers, label })
    }

    fn loss(&self, labels: &Labels) -> Result<Loss> {
        let (_, counts, n_counted) = labels.tensors(OP)?;
        let losses = self.sum.log()?.sub(&self.label)?.mul(counts)?;
        Ok(Loss { sum: Number::There(losses.to_dtype(DType::F64)?.sum_all()?), count: n_counted })
    }
}
