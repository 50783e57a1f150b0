//! The end of the model: final norm, logits, loss.

use candle_core::Tensor;

use super::Layer;
use super::layer_norm::{LayerNorm, LayerNormSaved, LayerNormWork};
use super::linear::{Linear, LinearSaved, LinearWork};
use crate::error::Result;
use crate::inputs::Inputs;
use crate::ops::{self, Loss};
use crate::param::Param;

/// `x` -> norm -> logits (no bias) -> cross-entropy, as a sum and a count.
///
/// The gradient is that of the sum: whoever owns the loss divides once, over all microbatches.
#[derive(Debug)]
pub struct Head {
    norm: LayerNorm,
    proj: Linear,
}

/// What a [`Head`] keeps.
#[derive(Debug)]
pub struct HeadSaved {
    norm: LayerNormSaved,
    normal: LinearSaved,
    /// The gradient of the logits `[batch, seq, vocab]`, in the memory that held them.
    dlogits: Tensor,
}

/// What is left to do for the weights of a [`Head`].
#[derive(Debug)]
pub struct HeadWork {
    norm: LayerNormWork,
    proj: LinearWork,
}

impl Head {
    /// From the norm's weight and bias `[hidden]` and the head's weight `[vocab, hidden]`.
    pub fn new([weight, bias, head]: [Param; 3]) -> Self {
        Self { norm: LayerNorm::new(weight, bias), proj: Linear::new(head, None) }
    }

    /// The loss against labels `[batch * seq]`, each below the vocabulary's size or ignored.
    pub fn forward(&self, x: Tensor, inputs: &Inputs) -> Result<(Loss, HeadSaved)> {
        let (normal, norm) = self.norm.forward(x)?;
        let (logits, normal) = self.proj.forward(normal)?;
        let loss = ops::cross_entropy_in_place(&logits, &inputs.labels)?;
        Ok((loss, HeadSaved { norm, normal, dlogits: logits }))
    }

    /// The loss alone, the same to the bit; keeps nothing.
    pub fn evaluate(&self, x: Tensor, inputs: &Inputs) -> Result<Loss> {
        let (normal, _) = self.norm.forward(x)?;
        let (logits, _) = self.proj.forward(normal)?;
        ops::cross_entropy(&logits, &inputs.labels)
    }

    /// The gradient of the input, and what is left to do for the weights.
    pub fn backward_input(&self, saved: HeadSaved) -> Result<(Tensor, HeadWork)> {
        let (dnormal, proj) = self.proj.backward_input(saved.normal, saved.dlogits)?;
        let (dx, norm) = self.norm.backward_input(saved.norm, dnormal)?;
        Ok((dx, HeadWork { norm, proj }))
    }

    /// Adds to the gradients of the weights.
    pub fn backward_weight(&mut self, work: HeadWork) -> Result<()> {
        self.proj.backward_weight(work.proj)?;
        self.norm.backward_weight(work.norm)
    }

    /// The head's weight `[vocab, hidden]`.
    pub fn weight(&self) -> &Param {
        self.proj.weight()
    }

    /// The head's weight, to change.
    pub fn weight_mut(&mut self) -> &mut Param {
        self.proj.weight_mut()
    }

    /// The parameters, in canonical order.
    pub fn params(&self) -> Vec<&Param> {
        [self.norm.params(), self.proj.params()].concat()
    }

    /// The parameters, in canonical order, to change.
    pub fn params_mut(&mut self) -> Vec<&mut Param> {
        let mut params = self.norm.params_mut();
        params.extend(self.proj.params_mut());
        params
    }
}
