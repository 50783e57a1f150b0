//! The position-wise network: wide linear, GELU, linear back.

use candle_core::Tensor;

use super::Layer;
use super::linear::{Linear, LinearSaved, LinearWork};
use crate::error::Result;
use crate::ops;
use crate::param::Param;

/// `x` -> `fc` (`[4 * hidden, hidden]`) -> GELU in its tanh form -> `proj` (`[hidden, 4 * hidden]`).
#[derive(Debug)]
pub struct Mlp {
    fc: Linear,
    proj: Linear,
}

/// What an [`Mlp`] keeps.
#[derive(Debug)]
pub struct MlpSaved {
    x: LinearSaved,
    /// Before the activation, `[batch, seq, 4 * hidden]`.
    wide: Tensor,
    active: LinearSaved,
}

/// What is left to do for the weights of an [`Mlp`].
#[derive(Debug)]
pub struct MlpWork {
    fc: LinearWork,
    proj: LinearWork,
}

impl Mlp {
    /// From its linear layers.
    pub fn new(fc: Linear, proj: Linear) -> Self {
        Self { fc, proj }
    }
}

impl Layer for Mlp {
    type Saved = MlpSaved;
    type Work = MlpWork;

    fn forward(&self, x: Tensor) -> Result<(Tensor, MlpSaved)> {
        let (wide, x) = self.fc.forward(x)?;
        let (y, active) = self.proj.forward(ops::gelu(&wide)?)?;
        Ok((y, MlpSaved { x, wide, active }))
    }

    fn backward_input(&self, saved: MlpSaved, dy: Tensor) -> Result<(Tensor, MlpWork)> {
        let MlpSaved { x, wide, active } = saved;
        let (dactive, proj) = self.proj.backward_input(active, dy)?;
        let dwide = ops::gelu_backward(&wide, &dactive)?;
        drop((wide, dactive));
        let (dx, fc) = self.fc.backward_input(x, dwide)?;
        Ok((dx, MlpWork { fc, proj }))
    }

    fn backward_weight(&mut self, work: MlpWork) -> Result<()> {
        self.proj.backward_weight(work.proj)?;
        self.fc.backward_weight(work.fc)
    }

    fn params(&self) -> Vec<&Param> {
        [self.fc.params(), self.proj.params()].concat()
    }

    fn params_mut(&mut self) -> Vec<&mut Param> {
        let mut params = self.fc.params_mut();
        params.extend(self.proj.params_mut());
        params
    }
}
