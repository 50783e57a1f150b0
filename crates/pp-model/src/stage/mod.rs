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
/// let loss = stage.take_loss();
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
    microbatches: Vec<MicroBatch>,
    slots: Slots,
    /// By microbatch; zero where not computed here.
    losses: Vec<LossSum>,
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
        let boundary = wire::boundary(numbers, &[batch, config.seq_len(), config.hidden()])?;
        let chunks = chunks.into_iter().map(|spec| GptChunk::new(config, spec, numbers)).collect::<Result<_>>()?;
        Ok(Self {
            config: config.clone(),
            batch,
            boundary,
            boundaries: Vec::new(),
            numbers: numbers.clone(),
            chunks,
            microbatches: Vec::new(),
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
    pub fn set_step(&mut self, microbatches: Vec<MicroBatch>) -> Result<()> {
        let boundary_of = |(microbatch, inputs): (Microbatch, &MicroBatch)| {
            let seq_len = inputs.check(microbatch, &self.config, self.batch)?;
            wire::boundary(&self.numbers, &[self.batch, seq_len, self.config.hidden()])
        };
        self.boundaries = (0..).map(Microbatch).zip(&microbatches).map(boundary_of).collect::<Result<_>>()?;
        self.losses = vec![LossSum::default(); microbatches.len()];
        self.microbatches = microbatches;
        self.slots.clear();
        Ok(())
    }

    /// The loss of the step so far: sum and count over microbatches, added in ascending order whatever the order of
    /// computation. Zero on ranks without the last stage. Taken once: it is zero afterwards.
    pub fn take_loss(&mut self) -> LossSum {
        let mut total = LossSum::default();
        for loss in &mut self.losses {
            total.sum += loss.sum;
            total.count += loss.count;
            *loss = LossSum::default();
        }
        total
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
        let params = self.params().filter(|param| !param.is_copy());
        params.map(|param| Ok((param.index(), param.grad_sum_squares()?))).collect()
    }

    /// Which of the chunks a computation is for, after a check that its microbatch was given.
    fn chunk_of(&self, work: Work) -> Result<usize> {
        if work.microbatch.idx() >= self.microbatches.len() {
            return Err(ModelError::NoSuchMicrobatch { work, n_microbatches: self.microbatches.len() });
        }
        let found = self.chunks.binary_search_by_key(&work.stage, |chunk| chunk.spec().stage);
        found.map_err(|_| ModelError::NoSuchStage {
            work,
            held: self.chunks.iter().map(|chunk| chunk.spec().stage.0).collect(),
        })
    }
}
