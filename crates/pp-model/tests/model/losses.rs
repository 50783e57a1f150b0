//! The loss as a sum and a count.

use pp_comm::{StageCompute, Task};
use pp_model::{DType, GptConfig, GptOptions, IGNORE, LossSum, MicroBatch};
use pp_schedule::WorkKind;

use crate::common::{Backward, Pipeline, TestResult, elements, microbatches, task, tiny, whole};

/// Two microbatches of which 4 tokens and 1 token count: the mean is over 5, not of two means.
#[test]
fn masks_of_four_and_one_are_a_mean_over_five() -> TestResult {
    let config = tiny(true);
    let mut inputs = microbatches(&config, 2, 1);
    inputs[0].labels[4..].fill(IGNORE);
    inputs[1].labels[1..].fill(IGNORE);
    let mut model = Pipeline::new(&config, &[2, 2], 1, DType::F64)?;
    let loss = model.step(&inputs, Backward::Full)?;
    let grads = model.gradients()?;
    assert_eq!(loss.count, 5);

    let mut alone = |inputs: &MicroBatch| model.step(std::slice::from_ref(inputs), Backward::Full);
    let (four, one) = (alone(&inputs[0])?, alone(&inputs[1])?);
    assert_eq!((four.count, one.count), (4, 1));
    assert_eq!(loss.sum, four.sum + one.sum);
    let mean_of_means = (four.sum / 4.0 + one.sum) / 2.0;
    assert!((loss.sum / loss.count as f64 - mean_of_means).abs() > 1e-3, "the case tells the two apart");

    // Both in one microbatch: the same gradient of the sum.
    let [first, second] = &inputs[..] else { unreachable!("two were made") };
    let both = MicroBatch {
        tokens: [first.tokens.clone(), second.tokens.clone()].concat(),
        labels: [first.labels.clone(), second.labels.clone()].concat(),
    };
    let mut together = Pipeline::new(&config, &[4], 2, DType::F64)?;
    assert_eq!(together.step(&[both], Backward::Full)?.count, 5);
    for ((_, name, a), (_, _, b)) in together.gradients()?.iter().zip(&grads) {
        for (a, b) in a.iter().zip(b) {
            let (a, b) = (f64::from_bits(*a), f64::from_bits(*b));
            assert!((a - b).abs() <= 1e-11 * a.abs().max(1e-2), "{name}: {a} and {b}");
        }
    }
    Ok(())
}

#[test]
fn ignored_labels_count_for_nothing() -> TestResult {
    let config = tiny(false);
    let mut inputs = microbatches(&config, 1, 2);
    inputs[0].labels.fill(IGNORE);
    let mut model = Pipeline::new(&config, &[4], 2, DType::F32)?;
    assert_eq!(model.step(&inputs, Backward::Full)?, LossSum { sum: 0.0, count: 0 });
    assert_eq!(model.grad_norm()?, 0.0);
    Ok(())
}

/// Eight sequences as four microbatches of two and as two of four.
#[test]
fn the_size_of_microbatches_does_not_matter() -> TestResult {
    let options = GptOptions { vocab: 32, seq_len: 16, hidden: 32, n_layers: 2, n_heads: 4, ..GptOptions::default() };
    let config = GptConfig::new(options)?;
    let norm_of = |n_microbatches, batch| -> TestResult<(f64, f64)> {
        let mut model = Pipeline::new(&config, &[1, 1], batch, DType::F32)?;
        let loss = model.step(&microbatches(&config, n_microbatches, batch), Backward::Full)?;
        assert_eq!(loss.count, 8 * 16);
        Ok((loss.sum / 128.0, model.grad_norm()? / 128.0))
    };
    let ((loss, norm), (other_loss, other_norm)) = (norm_of(4, 2)?, norm_of(2, 4)?);
    assert!((loss / other_loss - 1.0).abs() < 1e-6, "{loss} and {other_loss}");
    assert!((norm / other_norm - 1.0).abs() < 1e-5, "{norm} and {other_norm}");
    Ok(())
}

#[test]
fn losses_are_added_in_ascending_order_whatever_the_order_of_computation() -> TestResult {
    let config = tiny(true);
    let inputs = microbatches(&config, 32, 1);
    let loss_of = |order: &[usize]| -> TestResult<f64> {
        let mut stage = whole(&config, 1, DType::F32)?;
        stage.set_step(inputs.clone())?;
        for &microbatch in order {
            stage.forward(task(WorkKind::Forward, 0, microbatch), None)?;
        }
        Ok(stage.take_loss()?.sum)
    };
    let alone = (0..32).map(|microbatch| loss_of(&[microbatch])).collect::<TestResult<Vec<_>>>()?;
    let ascending = alone.iter().fold(0.0, |sum, loss| sum + loss);
    let descending = alone.iter().rev().fold(0.0, |sum, loss| sum + loss);
    assert_ne!(ascending, descending, "the case tells the two apart");
    let (upwards, downwards) = ((0..32).collect::<Vec<_>>(), (0..32).rev().collect());
    // Steps of 11 reach all of 32.
    let scattered = (0..32).map(|at| at * 11 % 32).collect();
    for order in [upwards, downwards, scattered] {
        assert_eq!(loss_of(&order)?, ascending);
    }
    Ok(())
}

#[test]
fn evaluation_has_the_loss_of_training_and_touches_nothing() -> TestResult {
    let config = tiny(true);
    let inputs = microbatches(&config, 2, 2);
    let mut model = Pipeline::new(&config, &[2, 2], 2, DType::F32)?;
    let trained = model.step(&inputs, Backward::Full)?;
    let grads = model.gradients()?;
    for stage in &mut model.stages {
        stage.set_step(inputs.clone())?;
    }
    for microbatch in 0..2 {
        let mut buffer = None;
        for (idx, stage) in model.stages.iter_mut().enumerate() {
            buffer = stage.forward(Task { saved: None, ..task(WorkKind::Forward, idx, microbatch) }, buffer)?;
        }
    }
    assert_eq!(model.take_loss()?, trained);
    assert_eq!(model.take_loss()?, LossSum::default(), "a loss is taken once");
    assert_eq!(model.gradients()?, grads);
    Ok(())
}

/// First losses are those of guessing: the logarithm of the vocabulary.
#[test]
fn the_first_loss_is_that_of_a_guess() -> TestResult {
    let config = GptConfig::new(GptOptions::default())?;
    let mut model = Pipeline::new(&config, &[4], 2, DType::F32)?;
    let loss = model.step(&microbatches(&config, 2, 2), Backward::Full)?;
    assert!((loss.sum / loss.count as f64 - 256_f64.ln()).abs() < 0.1);
    for param in model.stages[0].params() {
        assert!(elements(param.grad())?.iter().all(|x| x.is_finite()));
    }
    Ok(())
}

/// Loss and squares in one go are those of one after the other, on kernels and on the tensor library's operations.
#[test]
fn sums_of_a_step_can_be_taken_at_once() -> TestResult {
    let config = tiny(true);
    let inputs = microbatches(&config, 2, 2);
    for dtype in [DType::F32, DType::BF16] {
        let mut model = Pipeline::new(&config, &[2, 2], 2, dtype)?;
        let trained = model.step(&inputs, Backward::Full)?;
        let squares = model.stages.iter().map(|stage| stage.grad_norm_partials()).collect::<Result<Vec<_>, _>>()?;
        assert_ne!(squares[0], []);
        let mut again = Pipeline::new(&config, &[2, 2], 2, dtype)?;
        again.accumulate(&inputs, Backward::Full)?;
        let mut sum = LossSum::default();
        for (stage, squares) in again.stages.iter_mut().zip(squares) {
            let (loss, found) = stage.take_sums()?;
            assert_eq!(found, squares);
            assert!(found.iter().all(|&(_, squares)| squares > 0.0));
            (sum.sum, sum.count) = (sum.sum + loss.sum, sum.count + loss.count);
        }
        assert_eq!(sum, trained);
        assert_eq!(again.take_loss()?, LossSum::default(), "a loss is taken once");
    }
    Ok(())
}
