//! Validation: a forward-only program, run by all ranks over the validation split.

use anyhow::{Result, ensure};

use crate::stop::StopSignal;
use crate::sync;
use crate::trainer::{Pass, Trainer};

/// The mean loss over the validation split, or as much of it as the configuration says, after `iteration` steps, and whether
/// to stop after it. Asked to stop in its midst, all ranks leave it after the same of its steps, and there is no loss.
pub(crate) fn validate(trainer: &mut Trainer<'_>, iteration: u32) -> Result<(Option<f64>, Option<StopSignal>)> {
    let (mut sum, mut count, mut stop) = (0.0, 0, None);
    let n_steps = trainer.text.n_validation_steps(trainer.config);
    for step in 0..n_steps {
        let batch = trainer.text.validation_batch(trainer.config, step);
        trainer.run(Pass::Validation, batch)?;
        let loss = trainer.stage.take_loss()?;
        let (step_sum, step_count, asked) =
            sync::loss(&mut trainer.member.control, loss.sum, loss.count, &trainer.stop)?;
        sum += step_sum;
        count += step_count;
        stop = asked;
        if stop.is_some() && step + 1 < n_steps {
            return Ok((None, stop));
        }
    }
    ensure!(count > 0, "no token was validated on");
    let loss = sum / count as f64;
    // The update of the last step shows nowhere else.
    ensure!(
        loss.is_finite(),
        "training diverged: validation loss {loss} after iteration {iteration}; try a lower --lr than {:e}",
        trainer.config.lr.peak
    );
    Ok((Some(loss), stop))
}
