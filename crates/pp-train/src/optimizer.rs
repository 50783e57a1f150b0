//! AdamW over a rank's parameters, in two groups: matrices decay, norms and biases do not.

use anyhow::Result;
use pp_model::{AdamW, GptStage, Moments};

use crate::config::AdamOptions;

/// The optimizer's state on one rank.
#[derive(Debug)]
pub(crate) struct Optimizer {
    options: AdamOptions,
    /// By parameter, in the stage's order.
    moments: Vec<Moments>,
    /// Updates done.
    n_updates: u64,
}

impl Optimizer {
    pub(crate) fn new(stage: &GptStage, options: AdamOptions) -> Result<Self> {
        let moments = stage.params().map(Moments::zeros_like).collect::<Result<_, _>>()?;
        Ok(Self { options, moments, n_updates: 0 })
    }

    /// Updates every parameter with its gradient times `grad_scale`.
    pub(crate) fn update(&mut self, stage: &mut GptStage, lr: f64, grad_scale: f64) -> Result<()> {
        self.n_updates += 1;
        let AdamOptions { beta1, beta2, eps, weight_decay } = self.options;
        for (param, moments) in stage.params_mut().zip(&mut self.moments) {
            let weight_decay = if param.decays() { weight_decay } else { 0.0 };
            param.adamw(moments, AdamW { lr, beta1, beta2, eps, weight_decay, step: self.n_updates, grad_scale })?;
        }
        Ok(())
    }
}
