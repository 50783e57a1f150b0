//! Stages of which every value is known beforehand, wherever it is: an exchange of two messages, a late write or an early read shows.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use pp_comm::{Buffer, StageCompute, Task};
use pp_schedule::Work;

use super::memory::{Memory, rotated};

/// A rank's stages.
pub(super) struct Toy<M: Memory> {
    memory: M,
    n_stages: u32,
    n_elements: usize,
    /// By slot: a stage's input, and of the last stage its output, which is taken for its gradient.
    saved: BTreeMap<usize, (M::Value, Option<M::Value>)>,
    /// By stage and microbatch: the input and the gradient of the output.
    made: BTreeMap<(u32, u32), (M::Value, M::Value)>,
}

/// What can go wrong in a stage.
#[derive(Debug, thiserror::Error)]
#[error("{0:#}")]
pub(super) struct ToyError(anyhow::Error);

/// By how many elements a forward rotates, and its stamp.
fn forward_of(work: Work) -> (usize, i64) {
    (1 + work.stage.idx(), 1000 * i64::from(work.stage.0) + i64::from(work.microbatch.0))
}

fn backward_of(work: Work) -> (usize, i64) {
    let (by, stamp) = forward_of(work);
    (2 * by + 1, -1 - stamp)
}

/// What goes into the first stage.
fn data(microbatch: u32, n_elements: usize) -> Vec<i64> {
    (0..n_elements as i64).map(|index| ((1 + i64::from(microbatch)) << 32) + index).collect()
}

impl<M: Memory> Toy<M> {
    pub(super) const fn new(memory: M, n_stages: u32, n_elements: usize) -> Self {
        Self { memory, n_stages, n_elements, saved: BTreeMap::new(), made: BTreeMap::new() }
    }

    /// Compares all that it made with what a serial run makes; how many values.
    ///
    /// # Errors
    /// Which is off.
    pub(super) fn compare(self, n_microbatches: u32) -> Result<usize> {
        ensure!(self.saved.is_empty(), "{} inputs were never used", self.saved.len());
        let mut n_compared = 0;
        for microbatch in 0..n_microbatches {
            for (stage, (x, gradient)) in serial(microbatch, self.n_stages, self.n_elements) {
                let Some(found) = self.made.get(&(stage, microbatch)) else { continue };
                let name = format!("of stage {stage}, microbatch {microbatch}");
                ensure!(self.memory.elements(&found.0)? == x, "the input {name} is off");
                ensure!(self.memory.elements(&found.1)? == gradient, "the gradient {name} is off");
                n_compared += 2;
            }
        }
        ensure!(n_compared == 2 * self.made.len() && n_compared > 0, "only {n_compared} values could be compared");
        Ok(n_compared)
    }

    fn run_forward(&mut self, task: Task, input: Option<Buffer>) -> Result<Option<Buffer>> {
        let Work { stage, microbatch, .. } = task.work;
        ensure!(input.is_none() == (stage.0 == 0), "{} with an input: {}", task.work, input.is_some());
        let x = match input {
            Some(buffer) => self.memory.received(buffer)?,
            None => self.memory.value(data(microbatch.0, self.n_elements))?,
        };
        let (by, stamp) = forward_of(task.work);
        let y = self.memory.rotated(&x, by, stamp)?;
        let is_last = stage.0 + 1 == self.n_stages;
        let slot = task.saved.context("a forward has nowhere to keep its input")?;
        let before = self.saved.insert(slot.idx(), (x, is_last.then(|| y.clone())));
        ensure!(before.is_none(), "{slot} is still in use");
        if is_last { Ok(None) } else { Ok(Some(self.memory.buffer(y)?)) }
    }

    fn run_backward(&mut self, task: Task, gradient: Option<Buffer>) -> Result<Option<Buffer>> {
        let Work { stage, microbatch, .. } = task.work;
        let slot = task.saved.context("a backward has no slot")?;
        let (x, y) = self.saved.remove(&slot.idx()).with_context(|| format!("{slot} is empty"))?;
        let gradient = match (gradient, y) {
            (Some(buffer), None) => self.memory.received(buffer)?,
            (None, Some(y)) => y,
            _ => anyhow::bail!("{}: only the last stage has no gradient to receive", task.work),
        };
        let (by, stamp) = backward_of(task.work);
        let made = (stage.0 > 0).then(|| self.memory.rotated(&gradient, by, stamp)).transpose()?;
        self.made.insert((stage.0, microbatch.0), (x, gradient));
        made.map(|made| self.memory.buffer(made)).transpose()
    }
}

/// By stage, the input and the gradient of the output of a microbatch.
fn serial(microbatch: u32, n_stages: u32, n_elements: usize) -> BTreeMap<u32, (Vec<i64>, Vec<i64>)> {
    use pp_schedule::{Microbatch, Stage, WorkKind};
    let work = |stage| Work { kind: WorkKind::Forward, stage: Stage(stage), microbatch: Microbatch(microbatch) };
    let mut inputs = vec![data(microbatch, n_elements)];
    for stage in 0..n_stages {
        let (by, stamp) = forward_of(work(stage));
        inputs.push(rotated(&inputs[stage as usize], by, stamp));
    }
    let mut gradient = inputs.pop().unwrap_or_default();
    let mut made = BTreeMap::new();
    for (stage, x) in (0..n_stages).zip(inputs).rev() {
        let (by, stamp) = backward_of(work(stage));
        let next = rotated(&gradient, by, stamp);
        made.insert(stage, (x, std::mem::replace(&mut gradient, next)));
    }
    made
}

impl<M: Memory> StageCompute for Toy<M> {
    type Error = ToyError;

    fn forward(&mut self, task: Task, input: Option<Buffer>) -> Result<Option<Buffer>, ToyError> {
        self.run_forward(task, input).map_err(ToyError)
    }

    fn backward(&mut self, task: Task, gradient: Option<Buffer>) -> Result<Option<Buffer>, ToyError> {
        self.run_backward(task, gradient).map_err(ToyError)
    }

    fn backward_input(&mut self, task: Task, _: Option<Buffer>) -> Result<Option<Buffer>, ToyError> {
        Err(ToyError(anyhow::anyhow!("{}: this program splits no backward", task.work)))
    }

    fn backward_weight(&mut self, task: Task) -> Result<(), ToyError> {
        Err(ToyError(anyhow::anyhow!("{}: this program splits no backward", task.work)))
    }
}
