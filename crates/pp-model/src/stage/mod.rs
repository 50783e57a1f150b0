//! A rank's part of the model, as the executor calls it.
//!
//! [`GptStage`] holds the rank's chunks, the step's microbatches, the state that waits in slots and the losses. The
//! executor decides when; nothing here knows a schedule.

mod compute;
mod slots;
mod tied;
mod wire;

use pp_comm::{Boundaries, Boundary};
use pp_kernels::LossSum;
use pp_schedule::{Microbatch, Work};

use crate::batch::MicroBatch;
use crate::chunk::{ChunkSpec, GptChunk, Numbers};
use crate::config::GptConfig;
use crate::error::{ModelError, Result};
use crate::inputs::Inputs;
use crate::ops::{self, Loss, Number};
use crate::param::Param;
use slots::Slots;

/// The chunks of one rank.
///
/// A training step is: [`GptStage::zero_grads`], [`GptStage::set_step`], the executor's calls (this is a
/// [`pp_comm::StageCompute`]), [`GptStage::sum_tied_grad`], then norm and update over [`GptStage::params_mut`].
///
/// ```
/// use pp_comm::{StageCompute, Task};
/// use pp_model::{ChunkSpec, GptConfig, GptOptions, GptStage, MicroBatch, Numbers};
/// use pp_schedule::{Microbatch, Slot, SlotClass, Stage, Work};
///
/// let options = GptOptions { vocab: 16, seq_len: 4, hidden: 8, n_layers: 1, n_heads: 2, ..GptOptions::default() };
/// let config = GptConfig::new(options)?;
/// let whole = ChunkSpec { stage: Stage(0), pre_process: true, post_process: true, layers: 0..1 };
/// let mut stage = GptStage::new(&config, 1, vec![whole], &Numbers::f32_on_cpu(1))?;
///
/// stage.zero_grads()?;
/// stage.set_step(vec![MicroBatch { tokens: vec![1, 2, 3, 4], labels: vec![2, 3, 4, 5] }])?;
/// let saved = Some(Slot::new(SlotClass::Saved, 0));
/// stage.forward(Task { work: Work::forward(Stage(0), Microbatch(0)), saved }, None)?;
/// stage.backward(Task { work: Work::backward(Stage(0), Microbatch(0)), saved }, None)?;
/// stage.sum_tied_grad(None)?;
///
/// let loss = stage.take_loss()?;
/// assert!((loss.sum / loss.count as f64 - 16_f64.ln()).abs() < 0.1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct GptStage {
    config: GptConfig,
    /// Sequences per microbatch.
    batch: usize,
    /// `[batch, seq, hidden]` of sequences that have all positions.
    boundary: Boundary,
    /// The same of each microbatch of the step.
    boundaries: Vec<Boundary>,
    numbers: Numbers,
    /// Ascending by stage.
    chunks: Vec<GptChunk>,
    /// Of each microbatch, what the chunks here read.
    inputs: Vec<Inputs>,
    slots: Slots,
    /// By microbatch; zero where not computed here.
    losses: Vec<Loss>,
}

impl GptStage {
    /// Builds a rank's chunks, given in ascending order of stages, for microbatches of `batch` sequences.
    pub fn new(config: &GptConfig, batch: usize, chunks: Vec<ChunkSpec>, numbers: &Numbers) -> Result<Self> {
        if batch == 0 {
            return Err(ModelError::EmptyMicrobatch);
        }
        if let Some(pair) = chunks.windows(2).find(|pair| pair[0].stage >= pair[1].stage) {
            return Err(ModelError::StagesNotAscending { previous: pair[0].stage, found: pair[1].stage });
        }
        let boundary = wire::boundary(&numbers.device, numbers.dtype, &[batch, config.seq_len(), config.hidden()])?;
        let chunks = chunks.into_iter().map(|spec| GptChunk::new(config, spec, numbers)).collect::<Result<_>>()?;
        Ok(Self {
            config: config.clone(),
            batch,
            boundary,
            boundaries: Vec::new(),
            numbers: numbers.clone(),
            chunks,
            inputs: Vec::new(),
            slots: Slots::default(),
            losses: Vec::new(),
        })
    }

    /// The shape of the model.
    pub fn config(&self) -> &GptConfig {
        &self.config
    }

    /// What goes between stages, forward and backward, of sequences that have all positions, the largest there is:
    /// `[batch, seq, hidden]` of the parameters' number type.
    pub fn boundary(&self) -> &Boundary {
        &self.boundary
    }

    /// What goes between stages in this step: [`GptStage::boundary`] with each microbatch's own length.
    pub fn boundaries(&self) -> Boundaries {
        Boundaries::by_microbatch(self.boundaries.clone())
    }

    /// The chunks, ascending by stage.
    pub fn chunks(&self) -> &[GptChunk] {
        &self.chunks
    }

    /// Gives the inputs of the next step or evaluation, all of its microbatches in order.
    ///
    /// Every rank may be given all of them: only the first stage reads tokens and only the last reads labels. Each may have
    /// sequences of another length, from 1 to [`GptConfig::seq_len`], which follows from how many tokens it has. What an
    /// earlier step that failed left behind is dropped.
    ///
    /// On a GPU all that is read here goes there now, so that nothing has to during the step; that waits for what the GPU was
    /// given before, which a step's end has done anyway ([`GptStage::take_sums`]).
    pub fn set_step(&mut self, microbatches: Vec<MicroBatch>) -> Result<()> {
        let boundary_of = |(microbatch, inputs): (Microbatch, &MicroBatch)| {
            let seq_len = inputs.check(microbatch, &self.config, self.batch)?;
            wire::boundary(&self.numbers.device, self.numbers.dtype, &[self.batch, seq_len, self.config.hidden()])
        };
        self.boundaries = (0..).map(Microbatch).zip(&microbatches).map(boundary_of).collect::<Result<_>>()?;
        self.losses = vec![Loss::default(); microbatches.len()];
        self.inputs = microbatches.into_iter().map(|inputs| self.place(inputs)).collect::<Result<_>>()?;
        self.slots.clear();
        Ok(())
    }

    /// The loss of the step so far: sum and count over microbatches, added in ascending order whatever the order of
    /// computation. Zero on ranks without the last stage. Taken once: it is zero afterwards. Waits for the device.
    pub fn take_loss(&mut self) -> Result<LossSum> {
        let losses = self.take_losses();
        let sums = ops::fetch(losses.iter().map(|loss| &loss.sum))?;
        Ok(total(&losses, &sums))
    }

    /// [`GptStage::take_loss`] and [`GptStage::grad_norm_partials`] at once: the one wait for a GPU in a training step.
    pub fn take_sums(&mut self) -> Result<(LossSum, Vec<(usize, f64)>)> {
        let losses = self.take_losses();
        let (indices, squares) = self.sums_of_squares()?;
        let mut sums = ops::fetch(losses.iter().map(|loss| &loss.sum).chain(&squares))?;
        let squares = sums.split_off(losses.len());
        Ok((total(&losses, &sums), indices.into_iter().zip(squares).collect()))
    }

    /// The parameters, in canonical order.
    pub fn params(&self) -> impl Iterator<Item = &Param> {
        self.chunks.iter().flat_map(GptChunk::params)
    }

    /// The parameters, in canonical order, to change.
    pub fn params_mut(&mut self) -> impl Iterator<Item = &mut Param> {
        self.chunks.iter_mut().flat_map(GptChunk::params_mut)
    }

    /// Number of parameters held here, by elements; the head's copy of a tied weight does not count, so that the sum
    /// over ranks is the model's.
    pub fn n_parameters(&self) -> usize {
        self.params().filter(|param| !param.is_copy()).map(Param::len).sum()
    }

    /// Sets all gradients to zero.
    pub fn zero_grads(&mut self) -> Result<()> {
        self.params_mut().try_for_each(Param::zero_grad)
    }

    /// Each parameter's canonical index and the sum of its gradient's squares, in canonical order.
    ///
    /// The head's copy of a tied weight is left out: after [`GptStage::sum_tied_grad`] the embedding's gradient is all
    /// of it. Put the ranks' lists together, sort by index, add: the same sum for every cut.
    pub fn grad_norm_partials(&self) -> Result<Vec<(usize, f64)>> {
        let (indices, squares) = self.sums_of_squares()?;
        Ok(indices.into_iter().zip(ops::fetch(&squares)?).collect())
    }

    /// The same, where they were computed.
    fn sums_of_squares(&self) -> Result<(Vec<usize>, Vec<Number>)> {
        let params = self.params().filter(|param| !param.is_copy());
        let squares = params.map(|param| Ok((param.index(), ops::sum_of_squares(param.grad())?)));
        Ok(squares.collect::<Result<Vec<_>>>()?.into_iter().unzip())
    }

    /// Leaves zeros.
    fn take_losses(&mut self) -> Vec<Loss> {
        self.losses.iter_mut().map(std::mem::take).collect()
    }

    /// Puts what is read here of a microbatch where it is read, and drops the rest.
    fn place(&self, inputs: MicroBatch) -> Result<Inputs> {
        let has = |end: fn(&ChunkSpec) -> bool| self.chunks.iter().any(|chunk| end(chunk.spec()));
        let tokens = if has(|spec| spec.pre_process) { inputs.tokens } else { Vec::new() };
        let labels = if has(|spec| spec.post_process) { inputs.labels } else { Vec::new() };
        Inputs::new(MicroBatch { tokens, labels }, self.numbers.dtype, &self.numbers.device)
    }

    /// Which of the chunks a computation is for, after a check that its microbatch was given.
    fn chunk_of(&self, work: Work) -> Result<usize> {
        if work.microbatch.idx() >= self.inputs.len() {
            return Err(ModelError::NoSuchMicrobatch { work, n_microbatches: self.inputs.len() });
        }
        let found = self.chunks.binary_search_by_key(&work.stage, |chunk| chunk.spec().stage);
        found.map_err(|_| ModelError::NoSuchStage {
            work,
            held: self.chunks.iter().map(|chunk| chunk.spec().stage.0).collect(),
        })
    }
}

/// Losses added in ascending order, with their sums as fetched.
fn total(losses: &[Loss], sums: &[f64]) -> LossSum {
    let zero = LossSum::default();
    losses
        .iter()
        .zip(sums)
        .fold(zero, |total, (loss, sum)| LossSum { sum: total.sum + sum, count: total.count + loss.count })
}
