//! Values, gradients and updates in place.

use pp_comm::Buffer;
use pp_model::{AdamW, DType, GptStage, ModelError, Moments};

use crate::common::{Backward, Pipeline, TestResult, bits, elements, microbatches, normal, tiny};
use crate::finite_differences::param;

const HYPER: AdamW =
    AdamW { lr: 1e-2, beta1: 0.9, beta2: 0.95, eps: 1e-8, weight_decay: 0.0, step: 1, grad_scale: 1.0 };

#[test]
fn adamw_moves_against_the_gradient_by_the_learning_rate() -> TestResult {
    for dtype in [DType::F32, DType::F64] {
        let mut param = param("weight", 0, &[3, 4], dtype);
        let (before, grad) = (elements(param.value())?, normal(8, &[3, 4], 1.0, dtype)?);
        param.add_grad(&grad)?;
        let mut moments = Moments::zeros_like(&param)?;
        param.adamw(&mut moments, HYPER)?;
        // The first step is the sign of the gradient, whatever its size.
        for ((after, before), grad) in elements(param.value())?.iter().zip(before).zip(elements(&grad)?) {
            assert!((after - before + HYPER.lr * grad.signum()).abs() < 1e-6);
        }
        assert!(elements(moments.first())?.iter().all(|&m| m != 0.0));
        assert!(elements(moments.second())?.iter().all(|&v| v > 0.0));
    }
    Ok(())
}

#[test]
fn a_set_value_is_its_own() -> TestResult {
    let mut param = param("weight", 0, &[2, 2], DType::F32);
    let value = normal(4, &[2, 2], 1.0, DType::F32)?;
    param.set_value(value.clone())?;
    let before = bits(&value)?;
    param.add_grad(&normal(5, &[2, 2], 1.0, DType::F32)?)?;
    param.adamw(&mut Moments::zeros_like(&param)?, HYPER)?;
    assert_eq!(bits(&value)?, before, "the update stays in the parameter");
    assert_ne!(bits(param.value())?, before);
    param.zero_grad()?;
    assert_eq!(param.grad_sum_squares()?, 0.0);
    let transposed = normal(4, &[2, 2], 1.0, DType::F32)?.t()?;
    param.set_value(transposed.clone())?;
    assert_eq!(bits(param.value())?, bits(&transposed)?);
    Ok(())
}

#[test]
fn values_of_another_shape_or_type_are_refused() -> TestResult {
    let mut param = param("weight", 0, &[2, 2], DType::F32);
    for wrong in [normal(4, &[4], 1.0, DType::F32)?, normal(4, &[2, 2], 1.0, DType::F64)?] {
        assert!(matches!(param.set_value(wrong.clone()), Err(ModelError::ParamMismatch { .. })));
        let message = param.add_grad(&wrong).unwrap_err().to_string();
        assert!(message.contains("weight has shape [2, 2]"), "{message}");
    }
    Ok(())
}

/// Ten steps in two cuts: weights stay equal to the bit, and so do the two copies of a tied weight; the loss falls.
#[test]
fn training_is_bit_equal_over_cuts_and_learns() -> TestResult {
    for tied in [false, true] {
        let config = tiny(tied);
        let inputs = microbatches(&config, 2, 2);
        let train = |cut: &[u32]| -> TestResult<_> {
            let mut model = Pipeline::new(&config, cut, 2, DType::F32)?;
            let mut moments: Vec<Vec<Moments>> = Vec::new();
            for stage in &model.stages {
                moments.push(stage.params().map(Moments::zeros_like).collect::<Result<_, _>>()?);
            }
            let mut losses = Vec::new();
            for step in 1..=10 {
                let loss = model.step(&inputs, Backward::Full)?;
                losses.push(loss.sum);
                let hyper = AdamW { step, grad_scale: 1.0 / loss.count as f64, ..HYPER };
                for (stage, moments) in model.stages.iter_mut().zip(&mut moments) {
                    for (param, moments) in stage.params_mut().zip(moments) {
                        param.adamw(moments, hyper)?;
                    }
                }
            }
            let params = model.stages.iter().flat_map(GptStage::params);
            let weights = params.map(|param| bits(param.value())).collect::<TestResult<Vec<_>>>()?;
            Ok((losses, weights))
        };
        let (losses, weights) = train(&[4])?;
        assert!(losses[9] < 0.8 * losses[0], "{losses:?}");
        assert_eq!(train(&[1, 2, 1])?, (losses, weights.clone()));
        assert_eq!(weights.first() == weights.last(), tied);
    }
    Ok(())
}

#[test]
fn the_tied_gradient_needs_the_right_neighbours() -> TestResult {
    let config = tiny(true);
    let shape = [config.vocab(), config.hidden()];
    let gradient = || Buffer::f32(&shape, vec![0.0; 88]);
    let mut cut = Pipeline::new(&config, &[2, 1, 1], 1, DType::F32)?;
    assert!(cut.stages[0].sum_tied_grad(None).unwrap_err().to_string().contains("needs the gradient"));
    cut.stages[1].sum_tied_grad(None)?;
    assert!(cut.stages[1].sum_tied_grad(Some(gradient()?)).is_err());
    cut.stages[2].sum_tied_grad(Some(gradient()?))?;
    let wrong = Buffer::f32(&[88], vec![0.0; 88])?;
    assert!(matches!(cut.stages[0].sum_tied_grad(Some(wrong)), Err(ModelError::TiedBoundary { .. })));

    let mut whole = Pipeline::new(&config, &[4], 1, DType::F32)?;
    assert!(whole.stages[0].sum_tied_grad(Some(gradient()?)).is_err());
    let mut untied = Pipeline::new(&tiny(false), &[4], 1, DType::F32)?;
    untied.stages[0].sum_tied_grad(None)?;
    assert!(untied.stages[0].tied_grad()?.is_none() && untied.stages[0].tied_head_grad().is_none());
    Ok(())
}
