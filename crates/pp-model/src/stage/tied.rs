//! The weight that embedding and head share.
//!
//! Each has a copy with a gradient of its own, also when one rank holds both, so that the order of additions is the
//! same for every cut: each copy sums over microbatches, then the two sums are added, once. Copies begin with the same
//! values and get the same gradient, so they stay equal to the bit.

use candle_core::Tensor;
use pp_comm::Buffer;

use super::{GptStage, wire};
use crate::chunk::GptChunk;
use crate::error::{ModelError, Result};
use crate::layers::{Embedding, Head};
use crate::ops;
use crate::param::Param;

impl GptStage {
    /// The gradient of the embedding's copy, `[vocab, hidden]`: on the rank of the first stage of a tied model.
    pub fn tied_embedding_grad(&self) -> Option<&Tensor> {
        let embedding = self.chunks.iter().find_map(GptChunk::embedding).filter(|_| self.config.tied());
        embedding.map(Embedding::tokens).map(Param::grad)
    }

    /// The gradient of the head's copy, `[vocab, hidden]`: on the rank of the last stage of a tied model.
    pub fn tied_head_grad(&self) -> Option<&Tensor> {
        let head = self.chunks.iter().find_map(GptChunk::head).filter(|_| self.config.tied());
        head.map(Head::weight).map(Param::grad)
    }

    /// The gradient that the other copy's rank needs for [`GptStage::sum_tied_grad`]: a copy of this rank's, when it
    /// holds exactly one of the two.
    pub fn tied_grad(&self) -> Result<Option<Buffer>> {
        match (self.tied_embedding_grad(), self.tied_head_grad()) {
            (Some(grad), None) | (None, Some(grad)) => wire::copy_to_buffer(grad).map(Some),
            _ => Ok(None),
        }
    }

    /// Makes head + embedding the gradient of both copies. To be called once per step, after the last backward.
    ///
    /// A rank with one copy gives the other's gradient, from [`GptStage::tied_grad`] over there. A rank with both, or
    /// with neither, gives none.
    pub fn sum_tied_grad(&mut self, other: Option<Buffer>) -> Result<()> {
        match (self.tied_embedding_grad(), self.tied_head_grad(), other) {
            (None, None, None) => Ok(()),
            (Some(embedding), Some(head), None) => {
                ops::add_assign(head, embedding)?;
                ops::assign(embedding, head)
            }
            (Some(grad), None, Some(other)) | (None, Some(grad), Some(other)) => {
                let expected = wire::boundary(&self.numbers.device, grad.dtype(), grad.dims())?;
                if other.boundary() != &expected {
                    return Err(ModelError::TiedBoundary { expected, found: other.boundary().clone() });
                }
                // Two floats have one sum, whichever is first.
                ops::add_assign(grad, &wire::into_tensor(other, &self.numbers.device)?)
            }
            (_, _, None) => {
                Err(ModelError::Tied("this rank holds one copy of the tied weight and needs the gradient of the other"))
            }
            (_, _, Some(_)) => Err(ModelError::Tied(
                "this rank does not hold exactly one copy of a tied weight, so no gradient can be added",
            )),
        }
    }
}
