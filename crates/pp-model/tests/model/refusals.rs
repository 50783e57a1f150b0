//! Inputs that do not fit are refused with both numbers in the message.

use pp_comm::{Buffer, StageCompute, Task};
use pp_model::{ChunkSpec, DType, GptStage, MicroBatch, ModelError, Numbers};
use pp_schedule::{Stage, WorkKind};

use crate::common::{Pipeline, TestResult, microbatches, numbers, partition, task, tiny, whole};

/// The message for a changed second microbatch.
fn refusal(change: impl FnOnce(&mut MicroBatch)) -> TestResult<String> {
    let config = tiny(true);
    let mut inputs = microbatches(&config, 2, 2);
    change(&mut inputs[1]);
    let mut stage = whole(&config, 2, DType::F32)?;
    Ok(stage.set_step(inputs).expect_err("the inputs do not fit").to_string())
}

fn assert_contains(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "`{message}` lacks `{part}`");
    }
}

#[test]
fn lengths_name_both_numbers() -> TestResult {
    let message = refusal(|inputs| inputs.tokens.truncate(9))?;
    assert_contains(&message, &["microbatch 1", "9 tokens", "2 sequences of 5", "10"]);
    let message = refusal(|inputs| inputs.labels.push(0))?;
    assert_contains(&message, &["microbatch 1", "11 labels", "10"]);
    Ok(())
}

#[test]
fn tokens_and_labels_are_in_the_vocabulary() -> TestResult {
    let message = refusal(|inputs| inputs.tokens[3] = 11)?;
    assert_contains(&message, &["token 11", "position 3", "microbatch 1", "vocabulary of 11"]);
    for label in [11, -1, i64::MAX] {
        let message = refusal(|inputs| inputs.labels[4] = label)?;
        assert_contains(&message, &[&format!("label {label}"), "position 4", "-100", "0..11"]);
    }
    Ok(())
}

#[test]
fn stages_are_built_from_valid_parts() -> TestResult {
    let (config, numbers) = (tiny(true), numbers(DType::F32));
    let partition = partition(&[2, 2])?;
    let chunk = |stage| ChunkSpec::new(&partition, Stage(stage));
    assert!(matches!(GptStage::new(&config, 0, vec![chunk(0)], &numbers), Err(ModelError::EmptyMicrobatch)));
    let backwards = GptStage::new(&config, 1, vec![chunk(1), chunk(0)], &numbers);
    assert!(matches!(backwards, Err(ModelError::StagesNotAscending { .. })));
    let beyond = ChunkSpec { layers: 3..5, ..chunk(0) };
    let message = GptStage::new(&config, 1, vec![beyond], &numbers).unwrap_err().to_string();
    assert_contains(&message, &["stage 0", "3..5", "4"]);
    let half = Numbers { dtype: DType::F16, ..numbers };
    let message = GptStage::new(&config, 1, vec![chunk(0)], &half).unwrap_err().to_string();
    assert_contains(&message, &["F16", "f32, f64 and bf16"]);
    Ok(())
}

#[test]
fn work_must_be_of_this_rank_and_step() -> TestResult {
    let config = tiny(true);
    let mut stage = whole(&config, 1, DType::F32)?;
    stage.set_step(microbatches(&config, 2, 1))?;
    let message = stage.forward(task(WorkKind::Forward, 0, 2), None).unwrap_err().to_string();
    assert_contains(&message, &["0F2", "given 2"]);
    let message = stage.forward(task(WorkKind::Forward, 3, 0), None).unwrap_err().to_string();
    assert_contains(&message, &["3F0", "stage 3", "[0]"]);
    Ok(())
}

#[test]
fn tensors_from_neighbours_have_the_agreed_shape() -> TestResult {
    let config = tiny(true);
    let mut pipeline = Pipeline::new(&config, &[2, 2], 1, DType::F32)?;
    for stage in &mut pipeline.stages {
        stage.set_step(microbatches(&config, 1, 1))?;
    }
    let [first, last] = &mut pipeline.stages[..] else { unreachable!("two stages were made") };
    let activation = Buffer::f32(&[1, 5, 8], vec![0.0; 40])?;
    assert_eq!(first.boundary(), activation.boundary());
    let message = first.forward(task(WorkKind::Forward, 0, 0), Some(activation)).unwrap_err().to_string();
    assert_contains(&message, &["0F0", "takes no tensor"]);
    let message = last.forward(task(WorkKind::Forward, 1, 0), None).unwrap_err().to_string();
    assert_contains(&message, &["1F0", "got none"]);
    for wrong in [Buffer::f32(&[5, 8], vec![0.0; 40])?, Buffer::f64(&[1, 5, 8], vec![0.0; 40])?] {
        let found = wrong.boundary().to_string();
        let message = last.forward(task(WorkKind::Forward, 1, 0), Some(wrong)).unwrap_err().to_string();
        assert_contains(&message, &["1F0", "f32 [1, 5, 8]", &found]);
    }
    Ok(())
}

#[test]
fn slots_hold_what_the_work_needs() -> TestResult {
    let config = tiny(true);
    let mut stage = whole(&config, 1, DType::F32)?;
    stage.set_step(microbatches(&config, 2, 1))?;
    let message = stage.backward(task(WorkKind::Backward, 0, 0), None).unwrap_err().to_string();
    assert_contains(&message, &["0B0", "forward", "slot 0", "nothing"]);
    stage.forward(task(WorkKind::Forward, 0, 0), None)?;
    let other = Task { saved: crate::common::slot(0), ..task(WorkKind::Forward, 0, 1) };
    let message = stage.forward(other, None).unwrap_err().to_string();
    assert_contains(&message, &["0F1", "slot 0", "still holds"]);
    let message = stage.backward_weight(task(WorkKind::BackwardWeight, 0, 0)).unwrap_err().to_string();
    assert_contains(&message, &["0W0", "input gradient", "a forward"]);
    // A new step forgets what the failed one left.
    stage.set_step(microbatches(&config, 2, 1))?;
    stage.forward(task(WorkKind::Forward, 0, 0), None)?;
    let other = Task { saved: crate::common::slot(0), ..task(WorkKind::Backward, 0, 1) };
    assert_contains(&stage.backward(other, None).unwrap_err().to_string(), &["another stage or microbatch"]);
    Ok(())
}
