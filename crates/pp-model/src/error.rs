//! What can go wrong: configurations that are not possible, inputs that do not fit, work that cannot be done.

use candle_core::{DType, Device};
use pp_comm::{Boundary, BufferError};
use pp_schedule::{Microbatch, Stage, Work};

/// A shape of the model that cannot be built.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ConfigError {
    /// A size is zero.
    #[error("{name} is 0, it must be at least 1")]
    Zero {
        /// The field, with its flag.
        name: &'static str,
    },
    /// The hidden size does not split into heads.
    #[error(
        "hidden (--hidden-size) {hidden} is not divisible by n_heads (--num-heads) {n_heads}: \
         the nearest hidden size is {nearest_hidden}, the nearest number of heads {nearest_heads}"
    )]
    HeadsDoNotDivide {
        /// The hidden size asked for.
        hidden: usize,
        /// The number of heads asked for.
        n_heads: usize,
        /// The hidden size nearest to the one asked for that this many heads divide.
        nearest_hidden: usize,
        /// The number of heads nearest to the one asked for that divides the hidden size.
        nearest_heads: usize,
    },
    /// The standard deviation of the initial weights is not one.
    #[error("init_std {init_std} is not a positive number, GPT-2 takes 0.02")]
    InitStd {
        /// The value asked for.
        init_std: f64,
    },
    /// The tokens of a vocabulary must fit their type.
    #[error("vocab {vocab} does not fit tokens of 32 bits, at most {}", u32::MAX)]
    VocabTooLarge {
        /// The vocabulary asked for.
        vocab: usize,
    },
}

const NEEDS_A_TENSOR: &str = "needs a tensor from its neighbour and got none";
const TAKES_NO_TENSOR: &str = "is at the end of the pipeline and takes no tensor, but got one";

/// Everything that this crate reports.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The model's shape is not possible.
    #[error(transparent)]
    Config(#[from] ConfigError),

    /// No implementation for this device or number type.
    #[error("{op} is not supported on {device} in {dtype:?}: f32, f64 and bf16 on the CPU and on CUDA are")]
    Unsupported {
        /// The operation.
        op: &'static str,
        /// The device, in words.
        device: String,
        /// The number type.
        dtype: DType,
    },

    /// A tensor whose elements do not lie in row-major order.
    #[error("{op} needs a contiguous tensor, got shape {shape:?} with strides {strides:?}")]
    NotContiguous {
        /// The operation.
        op: &'static str,
        /// The tensor's shape.
        shape: Vec<usize>,
        /// The tensor's strides, in elements.
        strides: Vec<usize>,
    },

    /// Values given to a parameter, or to its gradient, of another shape or number type.
    #[error("{name} has shape {shape:?} in {dtype:?}, got {found_shape:?} in {found_dtype}")]
    ParamMismatch {
        /// The parameter's name.
        name: String,
        /// The parameter's shape.
        shape: Vec<usize>,
        /// The parameter's number type.
        dtype: DType,
        /// The shape given.
        found_shape: Vec<usize>,
        /// The number type given.
        found_dtype: String,
    },

    /// A microbatch of the wrong length.
    #[error(
        "microbatch {microbatch} has {found} {what}, {batch} sequences of {seq_len} need {}",
        batch * seq_len
    )]
    InputLength {
        /// Which microbatch.
        microbatch: Microbatch,
        /// `tokens` or `labels`.
        what: &'static str,
        /// How many there are.
        found: usize,
        /// Sequences per microbatch.
        batch: usize,
        /// Positions per sequence.
        seq_len: usize,
    },

    /// A token that the vocabulary does not have.
    #[error("token {token} at position {position} of microbatch {microbatch} is not below the vocabulary of {vocab}")]
    TokenBeyondVocab {
        /// Which microbatch.
        microbatch: Microbatch,
        /// Where in the microbatch.
        position: usize,
        /// The token.
        token: u32,
        /// Size of the vocabulary.
        vocab: usize,
    },

    /// A label that the vocabulary does not have.
    #[error(
        "label {label} at position {position} of microbatch {microbatch} is neither {} (ignored) \
         nor in 0..{vocab}",
        pp_kernels::loss::IGNORE
    )]
    LabelBeyondVocab {
        /// Which microbatch.
        microbatch: Microbatch,
        /// Where in the microbatch.
        position: usize,
        /// The label.
        label: i64,
        /// Size of the vocabulary.
        vocab: usize,
    },

    /// Sequences per microbatch must be at least one.
    #[error("the microbatch size (--micro-batch-size) is 0, it must be at least 1")]
    EmptyMicrobatch,

    /// Chunks that are not ascending stages of one model.
    #[error("a rank's chunks must be ascending stages, stage {found} came after stage {previous}")]
    StagesNotAscending {
        /// The stage before.
        previous: Stage,
        /// The stage that does not follow.
        found: Stage,
    },

    /// A chunk's layers are not the model's.
    #[error("stage {stage} was given layers {start}..{end}, the model has {n_layers}")]
    LayersBeyondModel {
        /// The stage.
        stage: Stage,
        /// Its first layer.
        start: u32,
        /// The layer after its last.
        end: u32,
        /// Layers of the model.
        n_layers: usize,
    },

    /// Work on a microbatch that the step does not have.
    #[error("{work} asks for microbatch {}, the step was given {n_microbatches}", work.microbatch)]
    NoSuchMicrobatch {
        /// The work.
        work: Work,
        /// How many microbatches the step has.
        n_microbatches: usize,
    },

    /// Work for a stage that lives elsewhere.
    #[error("{work} is for stage {}, this rank holds {held:?}", work.stage)]
    NoSuchStage {
        /// The work.
        work: Work,
        /// The stages that this rank holds.
        held: Vec<u32>,
    },

    /// An activation or gradient that should have come and did not, or the reverse.
    #[error("{work} {}", if *.expected { NEEDS_A_TENSOR } else { TAKES_NO_TENSOR })]
    Arity {
        /// The work.
        work: Work,
        /// Whether a tensor was expected.
        expected: bool,
    },

    /// A chunk was called without the tensor that its place in the pipeline needs.
    #[error("stage {stage} needs {what} and got none")]
    MissingTensor {
        /// The stage.
        stage: Stage,
        /// What is missing.
        what: &'static str,
    },

    /// A tensor from another stage of the wrong shape or number type.
    #[error("{work} takes {expected}, got {found}")]
    Boundary {
        /// The work.
        work: Work,
        /// What goes between stages of this microbatch, `[batch, seq, hidden]`.
        expected: Boundary,
        /// What came.
        found: Boundary,
    },

    /// A gradient of the tied weight of the wrong shape or number type.
    #[error("the tied weight's gradient is {expected}, got {found}")]
    TiedBoundary {
        /// The weight's own, `[vocab, hidden]`.
        expected: Boundary,
        /// What came.
        found: Boundary,
    },

    /// A slot that does not hold what the work needs.
    #[error("{work} needs the state of its {wanted}, slot {slot} holds {found}")]
    NoState {
        /// The work.
        work: Work,
        /// What left the state.
        wanted: &'static str,
        /// The slot's number, or `none`.
        slot: String,
        /// What is there instead.
        found: &'static str,
    },

    /// A forward into a slot whose state was not used up.
    #[error("{work} would overwrite slot {slot}, which still holds {found}")]
    SlotInUse {
        /// The work.
        work: Work,
        /// The slot's number.
        slot: usize,
        /// What is there.
        found: &'static str,
    },

    /// The gradient of a tied weight is not to be had here.
    #[error("{0}")]
    Tied(&'static str),

    /// A message in memory that the tensor library did not allocate, or on another stream than it computes on.
    #[error("a message came in memory of another owner or stream: endpoints of this stage take `Gpu::allocator`")]
    #[cfg(feature = "cuda")]
    ForeignMemory,

    /// The GPU, its driver, or NCCL failed.
    #[error(transparent)]
    #[cfg(feature = "cuda")]
    Nccl(#[from] pp_comm::nccl_rs::NcclError),

    /// A tensor that cannot travel.
    #[error(transparent)]
    Buffer(#[from] BufferError),

    /// The tensor library failed.
    #[error("tensor operation failed: {0}")]
    Backend(#[from] candle_core::Error),
}

impl ModelError {
    /// No implementation of `op` for this device and number type.
    pub(crate) fn unsupported(op: &'static str, device: &Device, dtype: DType) -> Self {
        Self::Unsupported { op, device: format!("{:?}", device.location()), dtype }
    }
}

/// This crate's result.
pub type Result<T, E = ModelError> = std::result::Result<T, E>;
