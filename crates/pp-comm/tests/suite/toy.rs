//! Stages that do integer arithmetic, and the same arithmetic one computation after the other.

use std::collections::BTreeMap;
use std::convert::Infallible;

use pp_comm::{Boundaries, Boundary, Buffer, DType, StageCompute, Task};
use serde::{Deserialize, Serialize};

/// What a step computes: the loss per microbatch and a weight gradient per stage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) losses: BTreeMap<u32, i64>,
    pub(crate) gradients: BTreeMap<u32, i64>,
}

impl Outcome {
    /// What several ranks computed.
    pub(crate) fn merged(parts: impl IntoIterator<Item = Self>) -> Self {
        let mut whole = Self::default();
        for part in parts {
            whole.losses.extend(part.losses);
            whole.gradients.extend(part.gradients);
        }
        whole
    }
}

fn data(microbatch: u32) -> i64 {
    17 * i64::from(microbatch) + 1
}

fn weight(stage: u32) -> i64 {
    2 * i64::from(stage) + 3
}

fn gradient_of_loss(y: i64) -> i64 {
    y.wrapping_mul(5).wrapping_add(1)
}

/// The same computations one after the other.
pub(crate) fn serial(n_stages: u32, microbatches: u32, forward_only: bool) -> Outcome {
    let mut outcome = Outcome::default();
    for microbatch in 0..microbatches {
        let mut inputs = Vec::new();
        let mut x = data(microbatch);
        for stage in 0..n_stages {
            inputs.push(x);
            x = x.wrapping_mul(weight(stage));
        }
        outcome.losses.insert(microbatch, x);
        let mut gradient = gradient_of_loss(x);
        for stage in (0..n_stages).rev().filter(|_| !forward_only) {
            let sum = outcome.gradients.entry(stage).or_default();
            *sum = sum.wrapping_add(gradient.wrapping_mul(inputs[stage as usize]));
            gradient = gradient.wrapping_mul(weight(stage));
        }
    }
    outcome
}

/// A rank's stages. What a forward leaves is kept by slot, as a model would.
#[derive(Default)]
pub(crate) struct Toy {
    n_stages: u32,
    /// Elements of a microbatch's messages, over and over; 1 where there are none.
    lens: Vec<usize>,
    pub(crate) saved: BTreeMap<usize, (i64, i64)>,
    pub(crate) outcome: Outcome,
}

impl Toy {
    pub(crate) fn new(n_stages: u32) -> Self {
        Self { n_stages, ..Self::default() }
    }

    /// With messages as long as their microbatch has it.
    pub(crate) fn with_lens(n_stages: u32, lens: &[usize]) -> Self {
        Self { lens: lens.to_vec(), ..Self::new(n_stages) }
    }

    /// The boundaries of its messages.
    pub(crate) fn boundaries(lens: &[usize], microbatches: u32) -> Boundaries {
        let of =
            |microbatch: usize| Boundary::new(DType::I64, &[lens[microbatch % lens.len()]]).expect("a small shape");
        Boundaries::by_microbatch((0..microbatches as usize).map(of).collect())
    }

    fn len(&self, task: Task) -> usize {
        let n = self.lens.len().max(1);
        self.lens.get(task.work.microbatch.idx() % n).copied().unwrap_or(1)
    }

    /// What a message stands for: every element of it is to arrive.
    fn value(&self, task: Task, buffer: Buffer) -> i64 {
        let elements = buffer.into_i64().expect("agreed");
        assert_eq!(elements.len(), self.len(task), "{}", task.work);
        let first = elements[0];
        let mut expected = (0..).map(|index| first.wrapping_add(index));
        assert!(elements.iter().all(|&element| Some(element) == expected.next()), "{}", task.work);
        first
    }

    fn buffer(&self, task: Task, value: i64) -> Buffer {
        let len = self.len(task);
        let elements = (0..len as i64).map(|index| value.wrapping_add(index)).collect();
        Buffer::i64(&[len], elements).expect("as long as its shape")
    }

    /// The gradient of a stage's output, and its input; the state stays.
    fn gradient(&mut self, task: Task, gradient: Option<Buffer>) -> (i64, i64) {
        let slot = task.saved.expect("not forward-only").idx();
        let (x, y) = self.saved[&slot];
        let is_last = task.work.stage.0 + 1 == self.n_stages;
        assert_eq!(gradient.is_none(), is_last, "{}", task.work);
        (gradient.map_or_else(|| gradient_of_loss(y), |gradient| self.value(task, gradient)), x)
    }

    fn input_gradient(&self, task: Task, gradient: i64) -> Option<Buffer> {
        (task.work.stage.0 > 0).then(|| self.buffer(task, gradient.wrapping_mul(weight(task.work.stage.0))))
    }

    fn accumulate(&mut self, task: Task, gradient: i64, x: i64) {
        let sum = self.outcome.gradients.entry(task.work.stage.0).or_default();
        *sum = sum.wrapping_add(gradient.wrapping_mul(x));
        self.saved.remove(&task.saved.expect("not forward-only").idx());
    }
}

impl StageCompute for Toy {
    type Error = Infallible;

    fn forward(&mut self, task: Task, input: Option<Buffer>) -> Result<Option<Buffer>, Infallible> {
        let (stage, microbatch) = (task.work.stage.0, task.work.microbatch.0);
        assert_eq!(input.is_none(), stage == 0, "{}", task.work);
        let x = input.map_or_else(|| data(microbatch), |input| self.value(task, input));
        let y = x.wrapping_mul(weight(stage));
        if let Some(slot) = task.saved {
            assert_eq!(self.saved.insert(slot.idx(), (x, y)), None, "{slot} is still in use");
        }
        if stage + 1 == self.n_stages {
            self.outcome.losses.insert(microbatch, y);
            return Ok(None);
        }
        Ok(Some(self.buffer(task, y)))
    }

    fn backward(&mut self, task: Task, gradient: Option<Buffer>) -> Result<Option<Buffer>, Infallible> {
        let (gradient, x) = self.gradient(task, gradient);
        self.accumulate(task, gradient, x);
        Ok(self.input_gradient(task, gradient))
    }

    fn backward_input(&mut self, task: Task, gradient: Option<Buffer>) -> Result<Option<Buffer>, Infallible> {
        let (gradient, x) = self.gradient(task, gradient);
        // From here on it keeps the gradient for the weights, beside the input.
        self.saved.insert(task.saved.expect("not forward-only").idx(), (x, gradient));
        Ok(self.input_gradient(task, gradient))
    }

    fn backward_weight(&mut self, task: Task) -> Result<(), Infallible> {
        let (x, gradient) = self.saved[&task.saved.expect("not forward-only").idx()];
        self.accumulate(task, gradient, x);
        Ok(())
    }
}
