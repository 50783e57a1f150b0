//! Nothing is dead: after one step every parameter of every stage has a gradient.

use pp_model::layers::Layer;
use pp_model::{DType, GptStage};

use crate::common::{Backward, Pipeline, TestResult, elements, microbatches, normal, tiny};
use crate::finite_differences::{linear, norm};

/// Every element of every gradient, over all tokens, but for the key bias: it adds the same number to all scores of
/// a query, which the softmax takes out again, so its gradient is zero but for rounding.
#[test]
fn every_parameter_has_a_gradient_after_one_step() -> TestResult {
    for tied in [false, true] {
        let config = tiny(tied);
        let hidden = config.hidden();
        for cut in [&[4][..], &[1, 2, 1]] {
            let mut pipeline = Pipeline::new(&config, cut, 4, DType::F64)?;
            pipeline.step(&microbatches(&config, 4, 4), Backward::Full)?;
            for param in pipeline.stages.iter().flat_map(GptStage::params) {
                let grad = elements(param.grad())?;
                let (exempt, rest) = if param.name().ends_with("attn.c_attn.bias") {
                    (&grad[hidden..2 * hidden], [&grad[..hidden], &grad[2 * hidden..]].concat())
                } else {
                    (&grad[..0], grad.clone())
                };
                let typical = (rest.iter().map(|x| x * x).sum::<f64>() / rest.len() as f64).sqrt();
                assert!(typical > 1e-6, "{} is dead", param.name());
                assert!(rest.iter().all(|&x| x != 0.0), "{} has dead elements", param.name());
                assert!(exempt.iter().all(|x| x.abs() < 1e-10 * typical), "{}: {exempt:?}", param.name());
            }
        }
    }
    Ok(())
}

/// A norm between two linear layers: the arrangement in which an operation without a backward cuts off all before it.
#[test]
fn gradients_pass_a_norm_between_linear_layers() -> TestResult {
    for dtype in [DType::F32, DType::F64] {
        let (mut first, mut middle, mut last) = (linear(0, 6, 8, dtype), norm(2, 8, dtype), linear(4, 8, 3, dtype));
        let (y, first_saved) = first.forward(normal(1, &[2, 4, 6], 1.0, dtype)?)?;
        let (y, middle_saved) = middle.forward(y)?;
        let (y, last_saved) = last.forward(y)?;
        let (dy, last_work) = last.backward_input(last_saved, normal(2, y.dims(), 1.0, dtype)?)?;
        let (dy, middle_work) = middle.backward_input(middle_saved, dy)?;
        let (dx, first_work) = first.backward_input(first_saved, dy)?;
        last.backward_weight(last_work)?;
        middle.backward_weight(middle_work)?;
        first.backward_weight(first_work)?;
        let layers: [&dyn Fn() -> Vec<pp_model::Tensor>; 3] = [
            &|| first.params().iter().map(|param| param.grad().clone()).collect(),
            &|| middle.params().iter().map(|param| param.grad().clone()).collect(),
            &|| last.params().iter().map(|param| param.grad().clone()).collect(),
        ];
        for grad in layers.iter().flat_map(|grads| grads()).chain([dx]) {
            assert!(elements(&grad)?.iter().all(|&x| x != 0.0));
        }
    }
    Ok(())
}
