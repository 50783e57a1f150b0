//! One training step: the program, what the ranks tell each other, the update.

use std::time::Instant;

use anyhow::{Result, ensure};
use pp_comm::StepReport;

use crate::stop::StopSignal;
use crate::sync;
use crate::trainer::{Pass, Trainer};

/// What a step gives; the same on every rank, the executor's report aside.
#[derive(Debug)]
pub(crate) struct StepResult {
    pub(crate) loss: f64,
    /// Before clipping.
    pub(crate) grad_norm: f64,
    pub(crate) lr: f64,
    pub(crate) tokens: u64,
    /// What all ranks are to stop for after it.
    pub(crate) stop: Option<StopSignal>,
    pub(crate) report: StepReport,
    pub(crate) times: StepTimes,
}

/// When the parts of a step after its program ended on this rank.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepTimes {
    program: Instant,
    exchange: Instant,
    update: Instant,
}

impl StepTimes {
    /// Name, start and end of what comes after the program.
    pub(crate) fn spans(&self) -> [(&'static str, Instant, Instant); 2] {
        [("exchange loss and norm", self.program, self.exchange), ("optimizer", self.exchange, self.update)]
    }
}

/// Trains on the batch of `iteration`, 0-based.
pub(crate) fn train_step(trainer: &mut Trainer<'_>, iteration: u32) -> Result<StepResult> {
    trainer.stage.zero_grads()?;
    let batch = trainer.text.training_batch(trainer.config, iteration);
    let report = trainer.run(Pass::Training, batch)?;
    let program = Instant::now();

    let embedding = trainer.groups.embedding.as_mut();
    sync::tied_grad(&mut trainer.member.endpoint, embedding, &mut trainer.stage)?;
    let totals = sync::totals(&mut trainer.member.control, &mut trainer.stage, &trainer.stop)?;
    let exchange = Instant::now();
    let (loss, grad_norm) = (totals.mean_loss(), totals.grad_norm());
    ensure!(
        loss.is_finite() && grad_norm.is_finite(),
        "training diverged at iteration {}: loss {loss}, gradient norm {grad_norm}; try a lower --lr than {:e}",
        iteration + 1,
        trainer.config.lr.peak
    );

    let lr = trainer.config.lr.at(iteration);
    // Gradients are those of the sum of losses: divided once, here, together with clipping.
    let grad_scale = clip_coefficient(grad_norm, trainer.config.clip) / totals.count as f64;
    trainer.optimizer.update(&mut trainer.stage, lr, grad_scale)?;
    let times = StepTimes { program, exchange, update: Instant::now() };
    Ok(StepResult { loss, grad_norm, lr, tokens: totals.count, stop: totals.stop, report, times })
}

/// What the gradient is multiplied by so that its norm is at most `clip`.
fn clip_coefficient(norm: f64, clip: Option<f64>) -> f64 {
    match clip {
        Some(clip) if norm > clip => clip / (norm + 1e-6),
        _ => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::clip_coefficient;

    #[test]
    fn only_larger_gradients_are_clipped() {
        assert_eq!(clip_coefficient(0.5, Some(1.0)), 1.0);
        assert_eq!(clip_coefficient(5.0, None), 1.0);
        assert!((clip_coefficient(4.0, Some(1.0)) - 0.25).abs() < 1e-6);
    }
}
