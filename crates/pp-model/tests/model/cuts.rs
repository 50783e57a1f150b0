//! The cut does not show: any partition has the bits of the whole.

use pp_comm::StageCompute;
use pp_model::{ChunkSpec, DType, GptStage};
use pp_schedule::{Stage, WorkKind};

use crate::common::{Backward, Pipeline, TestResult, bits, microbatches, numbers, partition, task, tiny};

/// Layers per stage: whole, halves, quarters, uneven, stages without layers at both ends and in the middle.
const CUTS: [&[u32]; 6] = [&[4], &[2, 2], &[1, 1, 1, 1], &[3, 1], &[0, 4, 0], &[1, 0, 3]];

#[test]
fn loss_and_gradients_are_bit_equal() -> TestResult {
    for (tied, dtype) in [(false, DType::F32), (true, DType::F32), (true, DType::F64)] {
        let config = tiny(tied);
        let inputs = microbatches(&config, 3, 2);
        let mut whole = Pipeline::new(&config, &[4], 2, dtype)?;
        let loss = whole.step(&inputs, Backward::Full)?;
        for cut in CUTS {
            for backward in [Backward::Full, Backward::Split] {
                let mut pipeline = Pipeline::new(&config, cut, 2, dtype)?;
                assert_eq!(pipeline.step(&inputs, backward)?, loss, "{cut:?} {backward:?}");
                assert_eq!(pipeline.gradients()?, whole.gradients()?, "{cut:?} {backward:?}");
                assert_eq!(pipeline.grad_norm()?.to_bits(), whole.grad_norm()?.to_bits());
            }
        }
    }
    Ok(())
}

#[test]
fn chunks_on_one_rank_are_bit_equal() -> TestResult {
    let config = tiny(true);
    let inputs = microbatches(&config, 2, 2);
    let mut whole = Pipeline::new(&config, &[4], 2, DType::F32)?;
    let loss = whole.step(&inputs, Backward::Full)?;

    let partition = partition(&[1, 2, 1])?;
    let chunks = (0..3).map(|stage| ChunkSpec::new(&partition, Stage(stage))).collect();
    let mut rank = GptStage::new(&config, 2, chunks, &numbers(DType::F32))?;
    rank.set_step(inputs.clone())?;
    for microbatch in 0..inputs.len() {
        let mut buffer = None;
        for stage in 0..3 {
            let task =
                pp_comm::Task { saved: crate::common::slot(stage), ..task(WorkKind::Forward, stage, microbatch) };
            buffer = rank.forward(task, buffer)?;
        }
        for stage in (0..3).rev() {
            let task =
                pp_comm::Task { saved: crate::common::slot(stage), ..task(WorkKind::Backward, stage, microbatch) };
            buffer = rank.backward(task, buffer)?;
        }
    }
    assert!(rank.tied_grad()?.is_none(), "a rank with both copies has nothing to send");
    rank.sum_tied_grad(None)?;
    let rank = Pipeline { stages: vec![rank] };
    assert_eq!(rank.gradients()?, whole.gradients()?);
    let mut rank = rank;
    assert_eq!(rank.take_loss()?, loss);
    Ok(())
}

#[test]
fn first_values_do_not_depend_on_the_cut() -> TestResult {
    let config = tiny(true);
    let values = |cut: &[u32]| -> TestResult<Vec<_>> {
        let pipeline = Pipeline::new(&config, cut, 1, DType::F32)?;
        let params = pipeline.stages.iter().flat_map(GptStage::params);
        params.map(|param| Ok((param.index(), param.name().to_owned(), bits(param.value())?))).collect()
    };
    let whole = values(&[4])?;
    for cut in CUTS {
        assert_eq!(values(cut)?, whole, "{cut:?}");
    }
    let (first, last) = (&whole[0], &whole[whole.len() - 1]);
    assert_eq!((&first.1, &first.2), (&last.1, &last.2), "both copies of the tied weight begin equal");
    Ok(())
}

#[test]
fn parameters_are_all_there_in_canonical_order() -> TestResult {
    for tied in [false, true] {
        let config = tiny(tied);
        let catalog = pp_model::catalog::catalog(&config);
        for cut in CUTS {
            let pipeline = Pipeline::new(&config, cut, 1, DType::F32)?;
            let params: Vec<_> = pipeline.stages.iter().flat_map(GptStage::params).collect();
            assert_eq!(params.len(), catalog.len());
            for (param, spec) in params.iter().zip(&catalog) {
                assert_eq!((param.index(), param.name()), (spec.index, spec.name.as_str()));
                assert_eq!(param.value().dims(), spec.shape);
                assert_eq!(param.decays(), spec.shape.len() == 2);
            }
            let n_parameters: usize = pipeline.stages.iter().map(GptStage::n_parameters).sum();
            assert_eq!(n_parameters, pp_model::catalog::n_parameters(&config));
        }
    }
    Ok(())
}

#[test]
fn the_two_gradients_of_a_tied_weight_stay_apart_until_summed() -> TestResult {
    let config = tiny(true);
    let inputs = microbatches(&config, 1, 1);
    let mut model = Pipeline::new(&config, &[4], 1, DType::F64)?;
    let stage = &mut model.stages[0];
    stage.set_step(inputs)?;
    stage.forward(task(WorkKind::Forward, 0, 0), None)?;
    stage.backward(task(WorkKind::Backward, 0, 0), None)?;
    let of = |grad: Option<&pp_model::Tensor>| crate::common::elements(grad.expect("one stage holds both copies"));
    let (embedding, head) = (of(stage.tied_embedding_grad())?, of(stage.tied_head_grad())?);
    assert_ne!(embedding, head);
    stage.sum_tied_grad(None)?;
    let sum: Vec<f64> = head.iter().zip(&embedding).map(|(head, embedding)| head + embedding).collect();
    assert_eq!(of(stage.tied_embedding_grad())?, sum);
    assert_eq!(of(stage.tied_head_grad())?, sum);
    Ok(())
}
