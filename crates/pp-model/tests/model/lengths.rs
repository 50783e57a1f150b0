//! Microbatches whose sequences differ in length.

use pp_comm::{Buffer, StageCompute};
use pp_model::{DType, GptConfig, GptOptions, MicroBatch, Tensor};
use pp_schedule::{Microbatch, WorkKind};

use crate::common::{Backward, Pipeline, TestResult, difference, microbatches, normal, task, whole};
use crate::oracle;

const LENGTHS: [usize; 4] = [5, 7, 3, 9];
const BATCH: usize = 2;

/// 9 positions, so that only the last of [`LENGTHS`] uses them all.
fn config() -> TestResult<GptConfig> {
    let options = GptOptions {
        vocab: 11,
        seq_len: 9,
        hidden: 8,
        n_layers: 4,
        n_heads: 2,
        init_std: 0.3,
        ..GptOptions::default()
    };
    Ok(GptConfig::new(options)?)
}

/// Microbatches of these lengths: each sequence is the beginning of one that has all positions.
fn unequal(config: &GptConfig) -> Vec<MicroBatch> {
    let cut = |(full, length): (MicroBatch, usize)| MicroBatch {
        tokens: full.tokens.chunks(config.seq_len()).flat_map(|tokens| &tokens[..length]).copied().collect(),
        labels: full.labels.chunks(config.seq_len()).flat_map(|labels| &labels[..length]).copied().collect(),
    };
    microbatches(config, LENGTHS.len(), BATCH).into_iter().zip(LENGTHS).map(cut).collect()
}

/// Loss and gradient against autograd of one mean over the tokens of all microbatches; a mean of their means is another.
#[test]
fn the_gradient_is_that_of_a_mean_over_tokens() -> TestResult {
    let config = config()?;
    let inputs = unequal(&config);
    let mut model = Pipeline::new(&config, &[2, 2], BATCH, DType::F64)?;
    // Away from the first values, where biases are zero and norms one; both copies of the tied weight the same.
    for param in model.stages.iter_mut().flat_map(|stage| stage.params_mut()) {
        let seed = if param.is_copy() { 0 } else { param.index() as u64 };
        let value = (param.value() + normal(seed, param.value().dims(), 0.2, DType::F64)?)?;
        param.set_value(value)?;
    }
    let vars = oracle::vars(model.stages.iter().flat_map(|stage| stage.params()).filter(|param| !param.is_copy()))?;
    let n_tokens = (BATCH * LENGTHS.iter().sum::<usize>()) as f64;
    let (mut over_tokens, mut of_means) = (Tensor::zeros((), DType::F64, &pp_model::Device::Cpu)?, 0.0);
    for (inputs, length) in inputs.iter().zip(LENGTHS) {
        let loss = oracle::gpt(&config, &vars, inputs, length)?;
        of_means += loss.to_scalar::<f64>()? / (BATCH * length) as f64 / LENGTHS.len() as f64;
        over_tokens = (over_tokens + loss)?;
    }
    let mean = (over_tokens / n_tokens)?;
    let grads = mean.backward()?;
    let mean = mean.to_scalar::<f64>()?;

    for backward in [Backward::Full, Backward::Split] {
        let loss = model.step(&inputs, backward)?;
        assert_eq!(loss.count as f64, n_tokens);
        let found = loss.sum / loss.count as f64;
        assert!((found - mean).abs() < 1e-12 * mean, "{found} for {mean}");
        assert!((found - of_means).abs() > 1e-3, "the case tells the two apart");
        for param in model.stages.iter().flat_map(|stage| stage.params()) {
            let reference = grads.get(&vars[param.name()]).expect("the oracle reaches every parameter");
            let off = difference(&(param.grad() / n_tokens)?, reference)?;
            assert!(off < 1e-11, "{}, {backward:?}: off by {off:e}", param.name());
        }
    }
    Ok(())
}

#[test]
fn cuts_are_bit_equal() -> TestResult {
    let config = config()?;
    let inputs = unequal(&config);
    let mut whole = Pipeline::new(&config, &[4], BATCH, DType::F32)?;
    let loss = whole.step(&inputs, Backward::Full)?;
    for cut in [&[2, 2][..], &[1, 1, 1, 1], &[0, 3, 1]] {
        for backward in [Backward::Full, Backward::Split] {
            let mut pipeline = Pipeline::new(&config, cut, BATCH, DType::F32)?;
            assert_eq!(pipeline.step(&inputs, backward)?, loss, "{cut:?} {backward:?}");
            assert_eq!(pipeline.gradients()?, whole.gradients()?, "{cut:?} {backward:?}");
        }
    }
    Ok(())
}

/// What would fit another microbatch of the step is no activation of this one.
#[test]
fn each_microbatch_has_a_boundary_of_its_own() -> TestResult {
    let config = config()?;
    let mut pipeline = Pipeline::new(&config, &[2, 2], BATCH, DType::F32)?;
    let last = &mut pipeline.stages[1];
    last.set_step(unequal(&config))?;
    let boundaries = last.boundaries();
    for (microbatch, length) in (0..).map(Microbatch).zip(LENGTHS) {
        assert_eq!(boundaries.of(microbatch).expect("it was given").shape(), [BATCH, length, config.hidden()]);
    }
    let of_length = |length| Buffer::f32(&[BATCH, length, 8], vec![0.0; BATCH * length * 8]);
    let message = last.forward(task(WorkKind::Forward, 1, 0), Some(of_length(7)?)).unwrap_err().to_string();
    assert!(message.contains("1F0") && message.contains("[2, 5, 8]") && message.contains("[2, 7, 8]"), "{message}");
    last.forward(task(WorkKind::Forward, 1, 1), Some(of_length(7)?))?;
    Ok(())
}

#[test]
fn no_length_but_those_the_model_has_positions_for() -> TestResult {
    let config = config()?;
    let refusal = |n_tokens: usize| -> TestResult<String> {
        let mut inputs = unequal(&config);
        inputs[2] = MicroBatch { tokens: vec![1; n_tokens], labels: vec![2; n_tokens] };
        Ok(whole(&config, BATCH, DType::F32)?.set_step(inputs).expect_err("no such length").to_string())
    };
    for (n_tokens, nearest) in
        [(0, "2 sequences of 1 need 2"), (7, "2 sequences of 4 need 8"), (20, "2 sequences of 9 need 18")]
    {
        let message = refusal(n_tokens)?;
        assert!(
            message.contains(&format!("microbatch 2 has {n_tokens} tokens")) && message.contains(nearest),
            "{message}"
        );
    }
    Ok(())
}
