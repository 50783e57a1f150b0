//! A chunk: the layers of one stage, with the embedding before them on the first and the head after them on the last.

use std::ops::Range;

use candle_core::{DType, Device, Tensor};
use pp_schedule::{LayerPartition, Stage};

use crate::catalog::{self, ParamSpec};
use crate::config::GptConfig;
use crate::error::{ModelError, Result};
use crate::inputs::Inputs;
use crate::layers::{Block, BlockSaved, BlockWork, CausalMask, Embedding, Head, HeadSaved, HeadWork, Layer};
use crate::ops::{self, Loss};
use crate::param::Param;

/// Which part of the model a stage is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkSpec {
    /// The stage.
    pub stage: Stage,
    /// Whether it embeds: the first stage does.
    pub pre_process: bool,
    /// Whether it computes the loss: the last stage does.
    pub post_process: bool,
    /// Its blocks, 0-based; there may be none, then activations pass through.
    pub layers: Range<u32>,
}

impl ChunkSpec {
    /// The part that `partition` gives to `stage`.
    ///
    /// # Panics
    /// If the partition has no such stage.
    pub fn new(partition: &LayerPartition, stage: Stage) -> Self {
        Self {
            stage,
            pre_process: stage.0 == 0,
            post_process: stage.0 + 1 == partition.n_stages(),
            layers: partition.range(stage),
        }
    }

    fn check(&self, config: &GptConfig) -> Result<()> {
        let Range { start, end } = self.layers;
        if start > end || end as usize > config.n_layers() {
            return Err(ModelError::LayersBeyondModel { stage: self.stage, start, end, n_layers: config.n_layers() });
        }
        Ok(())
    }
}

/// How values are made: a seed, a number type, a device.
#[derive(Clone, Debug)]
pub struct Numbers {
    /// Seed of the initial values.
    pub seed: u64,
    /// Number type of parameters and activations: `f32` or `bf16` to train, `f64` to check. Beside `bf16`, gradients of parameters
    /// and the optimizer's values and moments are `f32` ([`Numbers::main_dtype`]).
    pub dtype: DType,
    /// Where tensors live.
    pub device: Device,
}

impl Numbers {
    /// `f32` on the CPU.
    pub fn f32_on_cpu(seed: u64) -> Self {
        Self { seed, dtype: DType::F32, device: Device::Cpu }
    }

    /// Number type of main gradients, of the values that the optimizer updates and of its moments.
    pub fn main_dtype(&self) -> DType {
        ops::wide(self.dtype)
    }

    fn params<const N: usize>(&self, specs: [ParamSpec; N]) -> Result<[Param; N]> {
        let params = specs.into_iter().map(|spec| Param::new(spec, self.seed, self.dtype, &self.device));
        let params: Vec<Param> = params.collect::<Result<_>>()?;
        Ok(params.try_into().unwrap_or_else(|_| unreachable!("one parameter was made for each spec")))
    }
}

/// The layers of one stage.
#[derive(Debug)]
pub struct GptChunk {
    spec: ChunkSpec,
    embedding: Option<Embedding>,
    blocks: Vec<Block>,
    head: Option<Head>,
}

/// What a chunk's forward comes to.
#[derive(Debug)]
pub enum ChunkOutput {
    /// The activation for the next stage, `[batch, seq, hidden]`.
    Activation(Tensor),
    /// The microbatch's loss, of the last stage; on a GPU it stays there until it is fetched.
    Loss(Loss),
}

/// What a chunk's forward keeps.
#[derive(Debug)]
pub struct ChunkSaved {
    blocks: Vec<BlockSaved>,
    head: Option<HeadSaved>,
}

/// What a chunk's input gradient leaves to do for the weights.
#[derive(Debug)]
pub struct ChunkWork {
    head: Option<HeadWork>,
    /// Last block first.
    blocks: Vec<BlockWork>,
    /// The gradient of the embedding's output.
    embedding: Option<Tensor>,
}

impl GptChunk {
    /// Builds the part of the model that `spec` names, with first values.
    pub fn new(config: &GptConfig, spec: ChunkSpec, numbers: &Numbers) -> Result<Self> {
        spec.check(config)?;
        let mask = CausalMask::default();
        let block = |layer| {
            let params = numbers.params(catalog::block(config, layer as usize))?;
            Ok(Block::new(params, config.n_heads(), mask.clone()))
        };
        let blocks = spec.layers.clone().map(block);
        let blocks = blocks.collect::<Result<_>>()?;
        let embedding =
            spec.pre_process.then(|| Ok::<_, ModelError>(Embedding::new(numbers.params(catalog::embedding(config))?)));
        let head = spec.post_process.then(|| Ok::<_, ModelError>(Head::new(numbers.params(catalog::head(config))?)));
        Ok(Self { embedding: embedding.transpose()?, blocks, head: head.transpose()?, spec })
    }

    /// Which part of the model it is.
    pub fn spec(&self) -> &ChunkSpec {
        &self.spec
    }

    /// The token embedding, of the first stage.
    pub fn embedding(&self) -> Option<&Embedding> {
        self.embedding.as_ref()
    }

    /// The head, of the last stage.
    pub fn head(&self) -> Option<&Head> {
        self.head.as_ref()
    }

    /// Runs forward and keeps what the backward needs. `input` is the activation of the stage before; the first stage
    /// has none and takes the tokens of `inputs`, in sequences of `seq_len`.
    pub fn forward(&self, input: Option<Tensor>, inputs: &Inputs, seq_len: usize) -> Result<(ChunkOutput, ChunkSaved)> {
        let mut x = self.enter(input, inputs, seq_len)?;
        let mut blocks = Vec::with_capacity(self.blocks.len());
        for block in &self.blocks {
            let (y, saved) = block.forward(x)?;
            blocks.push(saved);
            x = y;
        }
        Ok(match &self.head {
            None => (ChunkOutput::Activation(x), ChunkSaved { blocks, head: None }),
            Some(head) => {
                let (loss, saved) = head.forward(x, inputs)?;
                (ChunkOutput::Loss(loss), ChunkSaved { blocks, head: Some(saved) })
            }
        })
    }

    /// Runs forward, the same to the bit, and keeps nothing; each layer's memory is freed before the next.
    pub fn evaluate(&self, input: Option<Tensor>, inputs: &Inputs, seq_len: usize) -> Result<ChunkOutput> {
        let mut x = self.enter(input, inputs, seq_len)?;
        for block in &self.blocks {
            (x, _) = block.forward(x)?;
        }
        Ok(match &self.head {
            None => ChunkOutput::Activation(x),
            Some(head) => ChunkOutput::Loss(head.evaluate(x, inputs)?),
        })
    }

    /// The gradient of the input (none on the first stage) from that of the output (none on the last, which has its
    /// own), weights included: last layer first, each layer's state freed before the next.
    pub fn backward(&mut self, saved: ChunkSaved, dy: Option<Tensor>, inputs: &Inputs) -> Result<Option<Tensor>> {
        let mut dy = dy;
        if let (Some(head), Some(saved)) = (&mut self.head, saved.head) {
            let (dx, work) = head.backward_input(saved)?;
            head.backward_weight(work)?;
            dy = Some(dx);
        }
        let mut dy = self.present(dy, "the gradient of a chunk's output")?;
        for (block, saved) in self.blocks.iter_mut().zip(saved.blocks).rev() {
            let (dx, work) = block.backward_input(saved, dy)?;
            block.backward_weight(work)?;
            dy = dx;
        }
        match &mut self.embedding {
            Some(embedding) => embedding.backward_weight(inputs, dy).map(|()| None),
            None => Ok(Some(dy)),
        }
    }

    /// As [`GptChunk::backward`], with the weights' part left to do.
    pub fn backward_input(&self, saved: ChunkSaved, dy: Option<Tensor>) -> Result<(Option<Tensor>, ChunkWork)> {
        let mut dy = dy;
        let mut head_work = None;
        if let (Some(head), Some(saved)) = (&self.head, saved.head) {
            let (dx, work) = head.backward_input(saved)?;
            head_work = Some(work);
            dy = Some(dx);
        }
        let mut dy = self.present(dy, "the gradient of a chunk's output")?;
        let mut blocks = Vec::with_capacity(self.blocks.len());
        for (block, saved) in self.blocks.iter().zip(saved.blocks).rev() {
            let (dx, work) = block.backward_input(saved, dy)?;
            blocks.push(work);
            dy = dx;
        }
        let (dx, embedding) = if self.embedding.is_some() { (None, Some(dy)) } else { (Some(dy), None) };
        Ok((dx, ChunkWork { head: head_work, blocks, embedding }))
    }

    /// Adds to the gradients of the weights what [`GptChunk::backward_input`] left to do; the microbatch is the same.
    pub fn backward_weight(&mut self, work: ChunkWork, inputs: &Inputs) -> Result<()> {
        if let (Some(head), Some(work)) = (&mut self.head, work.head) {
            head.backward_weight(work)?;
        }
        for (block, work) in self.blocks.iter_mut().rev().zip(work.blocks) {
            block.backward_weight(work)?;
        }
        match (&mut self.embedding, work.embedding) {
            (Some(embedding), Some(dy)) => embedding.backward_weight(inputs, dy),
            _ => Ok(()),
        }
    }

    /// The parameters, in canonical order.
    pub fn params(&self) -> impl Iterator<Item = &Param> {
        let embedding = self.embedding.iter().flat_map(Embedding::params);
        let blocks = self.blocks.iter().flat_map(Block::params);
        embedding.chain(blocks).chain(self.head.iter().flat_map(Head::params))
    }

    /// The parameters, in canonical order, to change.
    pub fn params_mut(&mut self) -> impl Iterator<Item = &mut Param> {
        let embedding = self.embedding.iter_mut().flat_map(Embedding::params_mut);
        let blocks = self.blocks.iter_mut().flat_map(Block::params_mut);
        embedding.chain(blocks).chain(self.head.iter_mut().flat_map(Head::params_mut))
    }

    fn enter(&self, input: Option<Tensor>, inputs: &Inputs, seq_len: usize) -> Result<Tensor> {
        match &self.embedding {
            Some(embedding) => embedding.forward(inputs, seq_len),
            None => self.present(input, "the activation of the stage before"),
        }
    }

    fn present(&self, tensor: Option<Tensor>, what: &'static str) -> Result<Tensor> {
        tensor.ok_or(ModelError::MissingTensor { stage: self.spec.stage, what })
    }
}
