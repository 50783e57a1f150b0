//! Layer normalisation over the hidden dimension.

use candle_core::Tensor;

use super::Layer;
use crate::error::Result;
use crate::ops;
use crate::param::Param;

/// Added to the variance, as in GPT-2.
const EPS: f64 = 1e-5;

/// Layer normalisation with weight and bias `[hidden]`.
#[derive(Debug)]
pub struct LayerNorm {
    weight: Param,
    bias: Param,
}

/// The input of a [`LayerNorm`] and the statistics of its rows.
#[derive(Debug)]
pub struct LayerNormSaved {
    x: Tensor,
    stats: ops::NormStats,
}

/// What a [`LayerNorm`] saved and the gradient of its output.
#[derive(Debug)]
pub struct LayerNormWork {
    saved: LayerNormSaved,
    dy: Tensor,
}

impl LayerNorm {
    /// From its parameters.
    pub fn new(weight: Param, bias: Param) -> Self {
        Self { weight, bias }
    }
}

impl Layer for LayerNorm {
    type Saved = LayerNormSaved;
    type Work = LayerNormWork;

    fn forward(&self, x: Tensor) -> Result<(Tensor, LayerNormSaved)> {
        let (y, stats) = ops::layer_norm(&x, self.weight.value(), self.bias.value(), EPS)?;
        Ok((y, LayerNormSaved { x, stats }))
    }

    fn backward_input(&self, saved: LayerNormSaved, dy: Tensor) -> Result<(Tensor, LayerNormWork)> {
        let dx = ops::layer_norm_backward_input(&dy, &saved.x, self.weight.value(), &saved.stats)?;
        Ok((dx, LayerNormWork { saved, dy }))
    }

    fn backward_weight(&mut self, LayerNormWork { saved, dy }: LayerNormWork) -> Result<()> {
        ops::layer_norm_backward_weight(&dy, &saved.x, &saved.stats, self.weight.grad(), self.bias.grad())
    }

    fn params(&self) -> Vec<&Param> {
        vec![&self.weight, &self.bias]
    }

    fn params_mut(&mut self) -> Vec<&mut Param> {
        vec![&mut self.weight, &mut self.bias]
    }
}
