//! What several tests need: seeded inputs, tiny models, a pipeline without communication.

use std::error::Error;

use pp_comm::{Buffer, StageCompute, Task};
use pp_model::init::Init;
use pp_model::{
    ChunkSpec, DType, Device, GptConfig, GptOptions, GptStage, LossSum, MicroBatch, Numbers, Param, Tensor,
};
use pp_schedule::{LayerPartition, Microbatch, ScheduleConfig, ScheduleSpec, Slot, SlotClass, Stage, Work, WorkKind};

pub(crate) type TestResult<T = ()> = Result<T, Box<dyn Error>>;

/// Seeded normals as a tensor.
pub(crate) fn normal(seed: u64, shape: &[usize], std: f64, dtype: DType) -> TestResult<Tensor> {
    let len = shape.iter().product();
    let values: Vec<f64> = Init::Normal { std }.values(seed, 99, len).collect();
    Ok(Tensor::from_vec(values, shape, &Device::Cpu)?.to_dtype(dtype)?)
}

/// All elements, widened.
pub(crate) fn elements(tensor: &Tensor) -> TestResult<Vec<f64>> {
    Ok(tensor.to_dtype(DType::F64)?.flatten_all()?.to_vec1()?)
}

/// All elements as bits; widening keeps what is equal equal.
pub(crate) fn bits(tensor: &Tensor) -> TestResult<Vec<u64>> {
    Ok(elements(tensor)?.into_iter().map(f64::to_bits).collect())
}

/// The largest difference, relative to the largest element of `expected` (or 1e-12, where that is smaller).
pub(crate) fn difference(found: &Tensor, expected: &Tensor) -> TestResult<f64> {
    assert_eq!(found.dims(), expected.dims());
    let (found, expected) = (elements(found)?, elements(expected)?);
    let top = expected.iter().fold(1e-12, |top: f64, x| top.max(x.abs()));
    Ok(found.iter().zip(&expected).fold(0.0, |worst: f64, (a, b)| worst.max((a - b).abs())) / top)
}

/// A tiny model: vocabulary 11, 5 positions, hidden 8, 4 layers, 2 heads.
pub(crate) fn tiny(tied: bool) -> GptConfig {
    let options = GptOptions { vocab: 11, seq_len: 5, hidden: 8, n_layers: 4, n_heads: 2, tied, init_std: 0.3 };
    GptConfig::new(options).expect("the tiny model is valid")
}

pub(crate) fn numbers(dtype: DType) -> Numbers {
    Numbers { seed: 42, dtype, device: Device::Cpu }
}

/// Microbatches of seeded tokens, each labelled with its successor.
pub(crate) fn microbatches(config: &GptConfig, n_microbatches: usize, batch: usize) -> Vec<MicroBatch> {
    let len = batch * config.seq_len();
    let draws: Vec<f64> = Init::Normal { std: 1e6 }.values(5, 7, n_microbatches * len + 1).collect();
    let tokens: Vec<u32> = draws.iter().map(|x| x.abs() as u32 % config.vocab() as u32).collect();
    let microbatch = |first: usize| MicroBatch {
        tokens: tokens[first..first + len].to_vec(),
        labels: tokens[first + 1..first + len + 1].iter().map(|&token| i64::from(token)).collect(),
    };
    (0..n_microbatches).map(|idx| microbatch(idx * len)).collect()
}

/// A partition with these layers per stage.
pub(crate) fn partition(counts: &[u32]) -> TestResult<LayerPartition> {
    let n_stages = counts.len() as u32;
    let placement = ScheduleConfig::new(&ScheduleSpec::new(n_stages, 1, n_stages))?.placement();
    Ok(LayerPartition::from_counts(counts, counts.iter().sum(), placement)?)
}

/// A saved slot.
pub(crate) fn slot(index: usize) -> Option<Slot> {
    Some(Slot::new(SlotClass::Saved, index as u32))
}

/// A task of stage `stage` on microbatch `microbatch`, its state in the slot of the microbatch's number.
pub(crate) fn task(kind: WorkKind, stage: usize, microbatch: usize) -> Task {
    let work = Work { kind, stage: Stage(stage as u32), microbatch: Microbatch(microbatch as u32) };
    Task { work, saved: slot(microbatch) }
}

/// The whole model as one stage.
pub(crate) fn whole(config: &GptConfig, batch: usize, dtype: DType) -> TestResult<GptStage> {
    let partition = partition(&[config.n_layers() as u32])?;
    Ok(GptStage::new(config, batch, vec![ChunkSpec::new(&partition, Stage(0))], &numbers(dtype))?)
}

/// Stages in a row, a [`GptStage`] each, run by hand.
pub(crate) struct Pipeline {
    pub(crate) stages: Vec<GptStage>,
}

/// How backwards are run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Backward {
    /// In one piece.
    Full,
    /// Input gradients for all microbatches, then weight gradients.
    Split,
}

impl Pipeline {
    pub(crate) fn new(config: &GptConfig, counts: &[u32], batch: usize, dtype: DType) -> TestResult<Self> {
        let partition = partition(counts)?;
        let stage =
            |stage| GptStage::new(config, batch, vec![ChunkSpec::new(&partition, Stage(stage))], &numbers(dtype));
        Ok(Self { stages: (0..counts.len() as u32).map(stage).collect::<Result<_, _>>()? })
    }

    /// One step: all forwards, then backwards in ascending order; tied gradients summed.
    pub(crate) fn step(&mut self, inputs: &[MicroBatch], backward: Backward) -> TestResult<LossSum> {
        self.accumulate(inputs, backward)?;
        self.take_loss()
    }

    /// The same; the losses stay to be taken.
    pub(crate) fn accumulate(&mut self, inputs: &[MicroBatch], backward: Backward) -> TestResult {
        for stage in &mut self.stages {
            stage.zero_grads()?;
            stage.set_step(inputs.to_vec())?;
        }
        for microbatch in 0..inputs.len() {
            self.forward(microbatch)?;
        }
        for microbatch in 0..inputs.len() {
            let mut gradient: Option<Buffer> = None;
            for (idx, stage) in self.stages.iter_mut().enumerate().rev() {
                gradient = match backward {
                    Backward::Full => stage.backward(task(WorkKind::Backward, idx, microbatch), gradient)?,
                    Backward::Split => {
                        stage.backward_input(task(WorkKind::BackwardInput, idx, microbatch), gradient)?
                    }
                };
            }
            assert!(gradient.is_none(), "the first stage has no input to have a gradient");
        }
        if backward == Backward::Split {
            for (idx, stage) in self.stages.iter_mut().enumerate() {
                for microbatch in 0..inputs.len() {
                    stage.backward_weight(task(WorkKind::BackwardWeight, idx, microbatch))?;
                }
            }
        }
        self.sum_tied()
    }

    pub(crate) fn forward(&mut self, microbatch: usize) -> TestResult {
        let mut activation: Option<Buffer> = None;
        for (idx, stage) in self.stages.iter_mut().enumerate() {
            activation = stage.forward(task(WorkKind::Forward, idx, microbatch), activation)?;
        }
        assert!(activation.is_none(), "the last stage ends in a loss");
        Ok(())
    }

    pub(crate) fn take_loss(&mut self) -> TestResult<LossSum> {
        let losses = self.stages.iter_mut().map(GptStage::take_loss).collect::<Result<Vec<_>, _>>()?;
        let add = |a: LossSum, b: LossSum| LossSum { sum: a.sum + b.sum, count: a.count + b.count };
        Ok(losses.into_iter().fold(LossSum::default(), add))
    }

    /// Exchanges the tied gradient between first and last stage, as a trainer would.
    pub(crate) fn sum_tied(&mut self) -> TestResult {
        let last = self.stages.len() - 1;
        let (first_grad, last_grad) = (self.stages[0].tied_grad()?, self.stages[last].tied_grad()?);
        if last == 0 {
            return Ok(self.stages[0].sum_tied_grad(None)?);
        }
        self.stages[0].sum_tied_grad(last_grad)?;
        Ok(self.stages[last].sum_tied_grad(first_grad)?)
    }

    /// Every parameter's index, name and gradient bits, in canonical order.
    pub(crate) fn gradients(&self) -> TestResult<Vec<(usize, String, Vec<u64>)>> {
        let params = self.stages.iter().flat_map(GptStage::params);
        let gradient = |param: &Param| Ok((param.index(), param.name().to_owned(), bits(param.grad())?));
        let mut gradients: Vec<_> = params.map(gradient).collect::<TestResult<_>>()?;
        gradients.sort_by_key(|&(index, ..)| index);
        Ok(gradients)
    }

    /// The gradient norm of the sum of losses, by the partials in canonical order.
    pub(crate) fn grad_norm(&self) -> TestResult<f64> {
        let mut partials = Vec::new();
        for stage in &self.stages {
            partials.extend(stage.grad_norm_partials()?);
        }
        partials.sort_by_key(|&(index, _)| index);
        Ok(partials.iter().map(|&(_, sum)| sum).sum::<f64>().sqrt())
    }
}
