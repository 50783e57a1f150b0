//! `y = x wᵀ + b`.

use candle_core::Tensor;

use super::Layer;
use crate::error::Result;
use crate::ops;
use crate::param::Param;

/// A linear layer: weight `[o, i]`, bias `[o]` or none; from `[.., i]` to `[.., o]`.
#[derive(Debug)]
pub struct Linear {
    weight: Param,
    bias: Option<Param>,
}

/// The input of a [`Linear`].
#[derive(Debug)]
pub struct LinearSaved {
    x: Tensor,
}

/// The input of a [`Linear`] and the gradient of its output.
#[derive(Debug)]
pub struct LinearWork {
    x: Tensor,
    dy: Tensor,
}

impl Linear {
    /// From its parameters.
    pub fn new(weight: Param, bias: Option<Param>) -> Self {
        Self { weight, bias }
    }

    /// The weight.
    pub fn weight(&self) -> &Param {
        &self.weight
    }

    /// The weight, to change.
    pub fn weight_mut(&mut self) -> &mut Param {
        &mut self.weight
    }
}

impl Layer for Linear {
    type Saved = LinearSaved;
    type Work = LinearWork;

    fn forward(&self, x: Tensor) -> Result<(Tensor, LinearSaved)> {
        let y = ops::linear(&x, self.weight.value(), self.bias.as_ref().map(Param::value))?;
        Ok((y, LinearSaved { x }))
    }

    fn backward_input(&self, saved: LinearSaved, dy: Tensor) -> Result<(Tensor, LinearWork)> {
        let dx = ops::linear_backward_input(&dy, self.weight.value())?;
        Ok((dx, LinearWork { x: saved.x, dy }))
    }

    fn backward_weight(&mut self, LinearWork { x, dy }: LinearWork) -> Result<()> {
        ops::linear_backward_weight(&dy, &x, self.weight.grad(), self.bias.as_ref().map(Param::grad))
    }

    fn params(&self) -> Vec<&Param> {
        std::iter::once(&self.weight).chain(&self.bias).collect()
    }

    fn params_mut(&mut self) -> Vec<&mut Param> {
        std::iter::once(&mut self.weight).chain(&mut self.bias).collect()
    }
}
