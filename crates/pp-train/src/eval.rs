//! Validation: a forward-only program, run by all ranks over the validation split.

use anyhow::{Result, ensure};

use crate::stop::StopSignal;
use crate::sync;
use crate::trainer::{Pass, Trainer};

/// The mean loss over the validation split, or as much of it as the configuration says, after `iteration` steps, and whether
/// to stop after it.
pub(crate) fn validate(trainer: &mut Trainer<'_>, iteration: u32) -> Result<(f64, Option<StopSignal>)> {
    let (mut sum, mut count) = (0.0, 0);
    for step in 0..trainer.text.n_validation_steps(trainer.config) {
        let batch = trainer.text.validation_batch(trainer.config, step);
        trainer.run(Pass::Validation, batch)?;
        let loss = trainer.stage.take_loss();
        sum += loss.sum;
        count += loss.count;
    }
    let (sum, count, stop) = sync::loss(&mut trainer.member.control, sum, count, &trainer.stop)?;
    ensure!(count > 0, "no token was validated on");
    let loss = sum / count as f64;
    // The update of the last step shows nowhere else.
    ensure!(
        loss.is_finite(),
        "training diverged: validation loss {loss} after iteration {iteration}; try a lower --lr than {:e}",
        trainer.config.lr.peak
    );
    Ok((loss, stop))
}
