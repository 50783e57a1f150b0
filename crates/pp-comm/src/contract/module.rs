//! What computes: the module of one stage, and how the executor sees it.

use pp_schedule::Stage;

use super::error::ModuleError;
use super::inputs::Batch;
use crate::executor::{StageCompute, Task};
use crate::message::{Boundary, Buffer, DType};
use crate::p2p::Item;

/// The computations of a rank's stage.
pub trait StageModule {
    /// What can go wrong in it.
    type Error: std::error::Error + Send + Sync + 'static;
    /// What a forward leaves for its backward.
    type Saved;

    /// Forward of a microbatch: from the inputs that are this stage's, and the activation of the stage before (none on
    /// the first), to the activation for the next stage, or on the last stage the loss: one `f32` or `f64`, the mean
    /// over the microbatch.
    ///
    /// # Errors
    /// As the stage says.
    fn forward(&mut self, inputs: Vec<Item>, activation: Option<Buffer>) -> Result<(Buffer, Self::Saved), Self::Error>;

    /// Backward of a microbatch: from the gradient of what its forward made to that of the activation it took (none on
    /// the first stage). The gradients of weights are added to those of the microbatches before.
    ///
    /// # Errors
    /// As the stage says.
    fn backward(&mut self, saved: Self::Saved, gradient: Buffer) -> Result<Option<Buffer>, Self::Error>;

    /// Divides the gradients of the weights, once all microbatches have been added.
    ///
    /// # Errors
    /// As the stage says.
    fn average_gradients(&mut self, microbatches: u32) -> Result<(), Self::Error>;
}

/// A module as the executor calls it, for one step.
pub(super) struct Stepping<'a, M: StageModule> {
    module: &'a mut M,
    batch: Batch<'a>,
    n_stages: u32,
    /// By slot: what a forward left, and on the last stage of what type its loss was.
    saved: Vec<Option<(M::Saved, Option<Boundary>)>>,
    /// By microbatch.
    losses: Vec<Option<f64>>,
}

impl<'a, M: StageModule> Stepping<'a, M> {
    pub(super) fn new(module: &'a mut M, batch: Batch<'a>, n_stages: u32) -> Self {
        let losses = vec![None; batch.microbatches() as usize];
        Self { module, batch, n_stages, saved: Vec::new(), losses }
    }

    /// The losses of the microbatches, in turn; none where this is not the last stage.
    pub(super) fn into_losses(self) -> Vec<f64> {
        self.losses.into_iter().flatten().collect()
    }

    const fn is_last(&self, stage: Stage) -> bool {
        stage.0 + 1 == self.n_stages
    }

    fn unsound<T>(task: Task) -> Result<T, ModuleError<M::Error>> {
        Err(ModuleError::Unsound(task.work.to_string()))
    }
}

impl<M: StageModule> StageCompute for Stepping<'_, M> {
    type Error = ModuleError<M::Error>;

    fn forward(&mut self, task: Task, input: Option<Buffer>) -> Result<Option<Buffer>, Self::Error> {
        let (stage, microbatch) = (task.work.stage, task.work.microbatch);
        let (Some(slot), Some(_)) = (task.saved, self.losses.get(microbatch.idx())) else { return Self::unsound(task) };
        let inputs = self.batch.of(stage, microbatch)?;
        let (made, saved) = self.module.forward(inputs, input).map_err(ModuleError::Module)?;
        let loss = self.is_last(stage).then(|| made.boundary().clone());
        if self.saved.len() <= slot.idx() {
            self.saved.resize_with(slot.idx() + 1, || None);
        }
        self.saved[slot.idx()] = Some((saved, loss.clone()));
        if loss.is_none() {
            return Ok(Some(made));
        }
        self.losses[microbatch.idx()] = Some(loss_of(&made)?);
        Ok(None)
    }

    fn backward(&mut self, task: Task, gradient: Option<Buffer>) -> Result<Option<Buffer>, Self::Error> {
        let stage = task.work.stage;
        let saved = task.saved.and_then(|slot| self.saved.get_mut(slot.idx())?.take());
        let Some((saved, loss)) = saved else { return Self::unsound(task) };
        let gradient = match (gradient, loss) {
            (Some(gradient), None) => gradient,
            (None, Some(loss)) => ones(&loss)?,
            _ => return Self::unsound(task),
        };
        let made = self.module.backward(saved, gradient).map_err(ModuleError::Module)?;
        match made.is_some() == (stage.0 > 0) {
            true => Ok(made),
            false => Err(ModuleError::Gradient { stage, gives: made.is_some() }),
        }
    }

    fn backward_input(&mut self, task: Task, _: Option<Buffer>) -> Result<Option<Buffer>, Self::Error> {
        Self::unsound(task)
    }

    fn backward_weight(&mut self, task: Task) -> Result<(), Self::Error> {
        Self::unsound(task)
    }
}

/// The value of a loss.
fn loss_of<E: std::error::Error + 'static>(made: &Buffer) -> Result<f64, ModuleError<E>> {
    let value = match made.boundary().dtype() {
        DType::F32 => made.as_f32().ok().and_then(|loss| <[f32; 1]>::try_from(loss).ok()).map(|[loss]| loss.into()),
        DType::F64 => made.as_f64().ok().and_then(|loss| <[f64; 1]>::try_from(loss).ok()).map(|[loss]| loss),
        DType::I64 | DType::Bf16 => None,
    };
    value.ok_or_else(|| ModuleError::NoLoss { found: made.boundary().clone() })
}

/// The gradient that a loss starts with.
fn ones<E: std::error::Error + 'static>(loss: &Boundary) -> Result<Buffer, ModuleError<E>> {
    Ok(match loss.dtype() {
        DType::F32 => Buffer::f32(loss.shape(), vec![1.0])?,
        DType::F64 => Buffer::f64(loss.shape(), vec![1.0])?,
        DType::I64 | DType::Bf16 => return Err(ModuleError::NoLoss { found: loss.clone() }),
    })
}
