//! Training in `bf16`: values and activations in brain floats, everything that sums up in `f32`. On the CPU, through the operations
//! that GPUs use.

use pp_model::{AdamW, DType, GptConfig, GptOptions, GptStage, ModelError, Moments, Numbers, Tensor};

use crate::common::{Backward, Pipeline, TestResult, bits, difference, elements, microbatches, normal, tiny};
use crate::finite_differences::param;

const HYPER: AdamW =
    AdamW { lr: 0.01, beta1: 0.9, beta2: 0.95, eps: 1e-8, weight_decay: 0.1, step: 1, grad_scale: 1.0 };

/// What training came to: the mean loss of each step, and every master in the end.
#[derive(Debug, PartialEq)]
struct Trained {
    losses: Vec<f64>,
    masters: Vec<Vec<u64>>,
}

fn train(config: &GptConfig, cut: &[u32], dtype: DType, backward: Backward, n_steps: u64) -> TestResult<Trained> {
    let inputs = microbatches(config, 2, 2);
    let mut model = Pipeline::new(config, cut, 2, dtype)?;
    let mut moments: Vec<Vec<Moments>> = Vec::new();
    for stage in &model.stages {
        moments.push(stage.params().map(Moments::zeros_like).collect::<Result<_, _>>()?);
    }
    let mut losses = Vec::new();
    for step in 1..=n_steps {
        let loss = model.step(&inputs, backward)?;
        losses.push(loss.sum / loss.count as f64);
        let hyper = AdamW { step, grad_scale: 1.0 / loss.count as f64, ..HYPER };
        for (stage, moments) in model.stages.iter_mut().zip(&mut moments) {
            for (param, moments) in stage.params_mut().zip(moments) {
                param.adamw(moments, hyper)?;
            }
        }
    }
    let params = model.stages.iter().flat_map(GptStage::params);
    Ok(Trained { losses, masters: params.map(|param| bits(param.master())).collect::<TestResult<_>>()? })
}

/// 8 bits leave each activation right to 0.4 %: so are the losses, all the way down.
#[test]
fn a_model_learns_as_it_does_in_f32() -> TestResult {
    let options = GptOptions { vocab: 32, seq_len: 16, hidden: 32, n_layers: 2, n_heads: 4, ..GptOptions::default() };
    let config = GptConfig::new(options)?;
    let losses = |dtype| Ok(train(&config, &[1, 1], dtype, Backward::Full, 30)?.losses) as TestResult<Vec<f64>>;
    let (narrow, full) = (losses(DType::BF16)?, losses(DType::F32)?);
    assert!(full[29] < 0.5 * full[0], "the case is one to learn: {full:?}");
    assert_ne!(narrow[0], full[0], "the two are not the same computation");
    for (narrow, full) in narrow.iter().zip(&full) {
        assert!((narrow / full - 1.0).abs() < 0.02, "{narrow} and {full}");
    }
    Ok(())
}

/// As in `f32`: weights equal to the bit for every cut, the copies of a tied weight equal to each other, split backwards the same.
#[test]
fn the_cut_does_not_show() -> TestResult {
    for tied in [false, true] {
        let config = tiny(tied);
        let whole = train(&config, &[4], DType::BF16, Backward::Full, 5)?;
        assert_eq!(train(&config, &[1, 2, 1], DType::BF16, Backward::Full, 5)?, whole);
        assert_eq!(train(&config, &[2, 2], DType::BF16, Backward::Split, 5)?, whole);
        assert_eq!(whole.masters.first() == whole.masters.last(), tied);
    }
    Ok(())
}

#[test]
fn gradients_are_those_of_f32_but_for_rounding() -> TestResult {
    let config = tiny(true);
    let inputs = microbatches(&config, 2, 2);
    let mut narrow = Pipeline::new(&config, &[4], 2, DType::BF16)?;
    let mut full = Pipeline::new(&config, &[4], 2, DType::F32)?;
    // The same weights: those that a brain float holds.
    for (param, narrow) in full.stages[0].params_mut().zip(narrow.stages[0].params()) {
        param.set_value(narrow.value().to_dtype(DType::F32)?)?;
    }
    narrow.step(&inputs, Backward::Full)?;
    full.step(&inputs, Backward::Full)?;
    for (narrow, full) in narrow.stages[0].params().zip(full.stages[0].params()) {
        assert_eq!((narrow.grad().dtype(), narrow.value().dtype()), (DType::F32, DType::BF16));
        let error = difference(narrow.grad(), full.grad())?;
        assert!(error < 0.1, "{}: {error}", narrow.name());
        assert!(elements(narrow.grad())?.iter().any(|&x| x != 0.0), "{} is dead", narrow.name());
    }
    Ok(())
}

/// Updates far below the last bit of a value add up in the master, and show in every handle once they fill a bit.
#[test]
fn small_updates_are_not_lost() -> TestResult {
    let mut param = param("weight", 0, &[3, 5], DType::BF16);
    param.set_value(Tensor::ones((3, 5), DType::F32, param.grad().device())?)?;
    let (value, master, grad) = (param.value().clone(), param.master().clone(), param.grad().clone());
    param.add_grad(&Tensor::ones((3, 5), DType::F32, grad.device())?)?;
    let mut moments = Moments::zeros_like(&param)?;
    // Below one, a brain float ends with 2^-8: ten updates of 2^-11 make more than half of it, one alone does not.
    let hyper = AdamW { lr: 2_f64.powi(-11), weight_decay: 0.0, ..HYPER };
    let mut shown = Vec::new();
    for step in 1..=10 {
        param.adamw(&mut moments, AdamW { step, ..hyper })?;
        shown.push(elements(&value)?[7]);
        assert!((elements(&master)?[7] - (1.0 - step as f64 * hyper.lr)).abs() < 1e-6);
    }
    assert_eq!((shown[0], shown[9]), (1.0, 1.0 - 2_f64.powi(-8)), "{shown:?}");
    param.zero_grad()?;
    assert_eq!(elements(&grad)?, [0.0; 15]);
    Ok(())
}

#[test]
fn values_are_given_as_the_optimizer_has_them() -> TestResult {
    let mut param = param("weight", 0, &[2, 2], DType::BF16);
    let full = normal(4, &[2, 2], 1.0, DType::F32)?;
    param.set_value(full.clone())?;
    assert_eq!(bits(param.master())?, bits(&full)?);
    assert_eq!(bits(param.value())?, bits(&full.to_dtype(DType::BF16)?)?);
    assert!(matches!(param.set_value(full.to_dtype(DType::BF16)?), Err(ModelError::ParamMismatch { .. })));
    let numbers = |dtype| Numbers { dtype, ..Numbers::f32_on_cpu(1) };
    for (dtype, main) in [(DType::BF16, DType::F32), (DType::F32, DType::F32), (DType::F64, DType::F64)] {
        assert_eq!(numbers(dtype).main_dtype(), main);
    }
    Ok(())
}
