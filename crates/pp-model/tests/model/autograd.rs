//! Layers and whole models against candle's autograd.

use candle_core::{Tensor, Var};
use pp_model::layers::Layer;
use pp_model::{DType, IGNORE};

use crate::common::{Backward, Pipeline, TestResult, difference, microbatches, normal, tiny};
use crate::finite_differences::{block, linear, norm};
use crate::oracle::{self, Vars};

/// How far apart two correct answers may be, relative to the largest element.
fn tolerance(dtype: DType) -> f64 {
    if dtype == DType::F64 { 1e-12 } else { 2e-5 }
}

/// Checks output and gradients of `layer` at a random `x` against `reference`.
fn check<L: Layer>(
    mut layer: L,
    shape: &[usize],
    dtype: DType,
    reference: impl Fn(&Tensor, &Vars) -> TestResult<Tensor>,
) -> TestResult {
    let x = normal(1, shape, 1.0, dtype)?;
    let (variable, vars) = (Var::from_tensor(&x)?, oracle::vars(layer.params().into_iter())?);
    let expected = reference(&variable, &vars)?;
    let dy = normal(2, expected.dims(), 1.0, dtype)?;
    // `backward` seeds ones: the product with `dy` makes them the gradient we want.
    let grads = (&expected * &dy)?.sum_all()?.backward()?;

    let (y, saved) = layer.forward(x)?;
    assert!(difference(&y, &expected)? < tolerance(dtype));
    let (dx, work) = layer.backward_input(saved, dy.copy()?)?;
    layer.backward_weight(work)?;
    let at = |var: &Var| grads.get(var).expect("the oracle reaches every parameter");
    assert!(difference(&dx, at(&variable))? < tolerance(dtype), "input, {dtype:?}");
    for param in layer.params() {
        let off = difference(param.grad(), at(&vars[param.name()]))?;
        assert!(off < tolerance(dtype), "{}, {dtype:?}: off by {off:e}", param.name());
    }
    Ok(())
}

#[test]
fn layers_agree() -> TestResult {
    for dtype in [DType::F32, DType::F64] {
        check(linear(0, 33, 17, dtype), &[3, 5, 33], dtype, |x, vars| {
            oracle::linear(x, &vars["weight"], Some(&vars["bias"]))
        })?;
        check(norm(0, 37, dtype), &[3, 5, 37], dtype, |x, vars| oracle::layer_norm(x, &vars["weight"], &vars["bias"]))?;
        // The whole block, and with it attention and MLP.
        check(block(24, 3, dtype), &[2, 35, 24], dtype, |x, vars| {
            oracle::block(x, &|name| vars[name].as_tensor().clone(), 3)
        })?;
    }
    Ok(())
}

#[test]
fn whole_models_agree_tied_and_untied() -> TestResult {
    for (tied, dtype) in [(false, DType::F32), (true, DType::F32), (false, DType::F64), (true, DType::F64)] {
        let config = tiny(tied);
        let mut inputs = microbatches(&config, 3, 2);
        inputs[1].labels[2..6].fill(IGNORE);
        let mut model = Pipeline::new(&config, &[4], 2, dtype)?;
        // Away from the first values, where biases are zero and norms one.
        for param in model.stages[0].params_mut() {
            let seed = if param.is_copy() { 0 } else { param.index() as u64 };
            let value = (param.value() + normal(seed, param.value().dims(), 0.2, dtype)?)?;
            param.set_value(value)?;
        }
        let vars = oracle::vars(model.stages[0].params())?;

        let mut expected: Option<Tensor> = None;
        for inputs in &inputs {
            let loss = oracle::gpt(&config, &vars, inputs, config.seq_len())?;
            expected = Some(expected.map_or(Ok(loss.clone()), |sum| sum + loss)?);
        }
        let expected = expected.expect("there are microbatches");
        let grads = expected.backward()?;

        let loss = model.step(&inputs, Backward::Full)?;
        let exact = expected.to_dtype(DType::F64)?.to_scalar::<f64>()?;
        assert!((loss.sum - exact).abs() / exact < tolerance(dtype), "loss {} for {exact}", loss.sum);
        for param in model.stages[0].params() {
            let reference = grads.get(&vars[param.name()]).expect("the oracle reaches every parameter");
            let off = difference(param.grad(), reference)?;
            // Many small terms of both signs go into one element.
            assert!(off < 10.0 * tolerance(dtype), "{} (tied {tied}, {dtype:?}): off by {off:e}", param.name());
        }
    }
    Ok(())
}
