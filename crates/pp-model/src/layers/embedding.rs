//! Token plus learned position embedding.

use candle_core::Tensor;

use crate::error::Result;
use crate::inputs::Inputs;
use crate::ops;
use crate::param::Param;

/// `y[t] = tokens[x[t]] + positions[t % seq]`. Its input has no gradient, so its backward is for the weights alone.
#[derive(Debug)]
pub struct Embedding {
    tokens: Param,
    positions: Param,
}

impl Embedding {
    /// From the tables `[vocab, hidden]` and `[positions, hidden]`.
    pub fn new([tokens, positions]: [Param; 2]) -> Self {
        Self { tokens, positions }
    }

    /// The activation `[batch, seq, hidden]` of tokens `[batch * seq]`, each below the vocabulary's size; `seq` is at most
    /// the number of positions.
    pub fn forward(&self, inputs: &Inputs, seq: usize) -> Result<Tensor> {
        ops::embedding(&inputs.tokens, seq, self.tokens.value(), self.positions.value())
    }

    /// Adds to the gradients of both tables, from the gradient of the output, `[batch, seq, hidden]`.
    pub fn backward_weight(&mut self, inputs: &Inputs, dy: Tensor) -> Result<()> {
        ops::embedding_backward(&inputs.tokens, &dy, self.tokens.grad(), self.positions.grad())
    }

    /// The token table.
    pub fn tokens(&self) -> &Param {
        &self.tokens
    }

    /// The parameters, in canonical order.
    pub fn params(&self) -> Vec<&Param> {
        vec![&self.tokens, &self.positions]
    }

    /// The parameters, in canonical order, to change.
    pub fn params_mut(&mut self) -> Vec<&mut Param> {
        vec![&mut self.tokens, &mut self.positions]
    }
}
