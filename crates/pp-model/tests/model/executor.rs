//! Stages under the real executor, a thread per rank, over zero-capacity channels in memory.

use std::time::Duration;

use pp_comm::{Boundaries, Group, MemorySpec, StepSpec, execute, memory_fabric};
use pp_model::{ChunkSpec, DType, GptStage, IGNORE, MicroBatch};
use pp_schedule::{
    GPipeBackward, LayerPartition, ScheduleConfig, ScheduleKind, ScheduleSpec, VerifiedProgram, lower::lanes, verify,
};

use crate::common::{Backward, Pipeline, TestResult, microbatches, numbers, tiny};

const N_MICROBATCHES: usize = 4;

/// Runs one step of a schedule; the ranks' stages, by rank.
fn run(spec: &ScheduleSpec, inputs: &[MicroBatch]) -> TestResult<Pipeline> {
    let config = ScheduleConfig::new(spec)?;
    let verified = verify(lanes::lower(&config))?;
    let channels = verified.program().channels.clone();
    let deadline = Duration::from_secs(60);
    let fabric = memory_fabric(MemorySpec { n_ranks: spec.pp, channels, capacity: 0, deadline })?;
    let stages = std::thread::scope(|scope| {
        let mut ranks = Vec::new();
        for builder in fabric {
            let (verified, config) = (&verified, &config);
            let run = move || run_rank(builder.build(), verified, config, inputs).map_err(|error| error.to_string());
            ranks.push(scope.spawn(run));
        }
        ranks.into_iter().map(|rank| rank.join().expect("no rank panics")).collect::<Result<Vec<_>, _>>()
    })?;
    Ok(Pipeline { stages })
}

fn run_rank(
    mut member: pp_comm::Member,
    verified: &VerifiedProgram,
    config: &ScheduleConfig,
    inputs: &[MicroBatch],
) -> TestResult<GptStage> {
    let (rank, placement, model) = (member.endpoint.rank(), config.placement(), tiny(true));
    let partition = LayerPartition::even(model.n_layers() as u32, placement)?;
    let chunks = placement.stages_of(rank).map(|stage| ChunkSpec::new(&partition, stage)).collect();
    let mut stage = GptStage::new(&model, 2, chunks, &numbers(DType::F32))?;
    stage.set_step(inputs.to_vec())?;
    let boundaries = Boundaries::same(stage.boundary().clone());
    let group = Group::all(config.pp(), rank).ok_or("a rank of the pipeline")?;
    let spec = StepSpec { step: 0, group: &group, boundaries: &boundaries };
    execute(&verified.certified(rank), spec, &mut member.endpoint, &mut stage)?;
    member.close();
    Ok(stage)
}

#[test]
fn schedules_have_the_bits_of_the_whole_model() -> TestResult {
    let config = tiny(true);
    let inputs = microbatches(&config, N_MICROBATCHES, 2);
    let mut whole = Pipeline::new(&config, &[4], 2, DType::F32)?;
    let loss = whole.step(&inputs, Backward::Full)?;
    for (pp, vp) in [(1, 1), (1, 2), (2, 1), (4, 1), (2, 2)] {
        let mut specs = vec![ScheduleSpec::new(pp, vp, N_MICROBATCHES as u32)];
        if vp == 1 {
            let (schedule, gpipe_backward) = (Some(ScheduleKind::GPipe), Some(GPipeBackward::Ascending));
            specs.push(ScheduleSpec { schedule, gpipe_backward, ..specs[0].clone() });
        }
        for spec in specs {
            let mut ranks = run(&spec, &inputs)?;
            ranks.sum_tied()?;
            assert_eq!(ranks.take_loss()?, loss, "{spec:?}");
            assert_eq!(ranks.gradients()?, whole.gradients()?, "{spec:?}");
        }
    }
    Ok(())
}

#[test]
fn a_forward_only_program_has_the_loss_of_training_and_no_gradients() -> TestResult {
    let config = tiny(true);
    let inputs = microbatches(&config, N_MICROBATCHES, 2);
    let loss = Pipeline::new(&config, &[4], 2, DType::F32)?.step(&inputs, Backward::Full)?;
    for (pp, vp) in [(1, 1), (2, 1), (2, 2)] {
        let spec = ScheduleSpec { forward_only: true, ..ScheduleSpec::new(pp, vp, N_MICROBATCHES as u32) };
        let mut ranks = run(&spec, &inputs)?;
        assert_eq!(ranks.take_loss()?, loss);
        assert_eq!(ranks.grad_norm()?, 0.0);
    }
    Ok(())
}

/// Every microbatch counts another number of tokens, one of them none: what is divided by is their sum, on any cut.
#[test]
fn masks_that_differ_between_microbatches_have_the_bits_of_the_whole_model() -> TestResult {
    let config = tiny(true);
    let mut inputs = microbatches(&config, N_MICROBATCHES, 2);
    let n_labels = inputs[0].labels.len();
    for (inputs, kept) in inputs.iter_mut().zip([n_labels, 1, 0, 3]) {
        inputs.labels[kept..].fill(IGNORE);
    }
    let mut whole = Pipeline::new(&config, &[4], 2, DType::F32)?;
    let loss = whole.step(&inputs, Backward::Full)?;
    assert_eq!(loss.count, n_labels as u64 + 4);
    let mut sum = 0.0;
    for inputs in &inputs {
        let mut alone = Pipeline::new(&config, &[4], 2, DType::F32)?;
        sum += alone.step(std::slice::from_ref(inputs), Backward::Full)?.sum;
    }
    assert_eq!(loss.sum, sum, "a sum over tokens, not of means");
    for (pp, vp) in [(1, 1), (2, 1), (2, 2)] {
        let mut ranks = run(&ScheduleSpec::new(pp, vp, N_MICROBATCHES as u32), &inputs)?;
        ranks.sum_tied()?;
        assert_eq!(ranks.take_loss()?, loss, "--pp {pp} --vp {vp}");
        assert_eq!(ranks.gradients()?, whole.gradients()?, "--pp {pp} --vp {vp}");
    }
    Ok(())
}
