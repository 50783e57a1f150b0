//! Estimates for a GPT from its shape alone.
//!
//! With `b` sequences per microbatch, `s` tokens per sequence, hidden size `h`, `a` heads, `V` tokens in the vocabulary
//! and `e` bytes per element. A product of matrices counts two operations per multiplication and addition; norms,
//! activation functions and the embedding's look-up are not counted.
//!
//! | | layer | head | embedding |
//! |---|---|---|---|
//! | parameters | `12 h^2 + 13 h` | `V h + 2 h` | `V h + s h` |
//! | F, operations | `24 b s h^2 + 4 b s^2 h` | `2 b s h V` | 0 |
//! | I, operations | `24 b s h^2 + 8 b s^2 h` | `2 b s h V` | 0 |
//! | W, operations | `24 b s h^2` | `2 b s h V` | 0 |
//!
//! Parameters: `4 h^2 + 4 h` for attention, `8 h^2 + 5 h` for the network behind it, `4 h` for two norms; a final norm of
//! `2 h`. A tied head is trained once but held twice, on the first and on the last stage. Operations are those of attention
//! over the whole sequence, as in Narayanan et al. 2021 and Qi et al. 2023: attention's scores have no weights, so their
//! part of the backward (`8 b s^2 h`) is all in I.
//!
//! Bytes that a layer keeps per token (times `b s`): in flight, from F to its backward, and deferred, from I to W where W is
//! apart:
//!
//! | | in flight | deferred |
//! |---|---|---|
//! | [`Keeps::Megatron`], layer | `16 e h + 2 h + (2 e + 1) a s` | `16 e h` |
//! | head | `2 e h + 4 V` | `2 e h + 4 V` |
//! | embedding | `h` | `e h` |
//! | [`Keeps::PpModel`], layer | `e (16 h + a s + 4)` | `e (20 h + 4)` |
//! | head | `e (2 h + V + 2)` | `e (3 h + V + 2)` |
//! | embedding | 0 | `e h` |
//!
//! The first is Korthikanti et al. 2022 without tensor or sequence parallelism, masks of dropout taking a byte: with two
//! bytes per element it is their `s b h (34 + 5 a s / h)`, logits in four bytes; deferred is the `32 s b h` of Qi et al.
//! 2023. The second is what pp-model keeps: inputs of norms and matrices, queries, keys and values, attention's
//! probabilities, the network before its activation function, two statistics per norm; and, until W, the inputs of norms
//! and matrices with the gradients of their outputs (`20 h`). Under [`super::Recompute::Selective`] the `a s` are computed
//! again, at `4 b s^2 h` operations; under [`super::Recompute::Full`] `e h` are kept of a layer, at one more F.
//!
//! Parameters take, in bytes: with [`Precision::Bf16`] 2 for the weight, 4 for its gradient and 12 for the optimizer
//! (master weight and two moments); with [`Precision::F32`] 4, 4 and 8.

use super::model::{Core, Layer, Model, Part, Weights};
use crate::layout::MAX_BALANCED_LAYERS;
use crate::quantity::TICKS_PER_SECOND;

/// The shape of a GPT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GptShape {
    /// Elements of an activation at one position.
    pub hidden: u32,
    /// Transformer layers.
    pub layers: u32,
    /// Attention heads per layer.
    pub heads: u32,
    /// Tokens per sequence.
    pub seq: u32,
    /// Tokens in the vocabulary.
    pub vocab: u32,
    /// Whether the head's weight is the embedding's.
    pub tied: bool,
}

/// Number types of weights, gradients and activations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Precision {
    /// Weights and activations of two bytes, gradients and optimizer in four.
    #[default]
    Bf16,
    /// Four bytes everywhere.
    F32,
}

impl Precision {
    /// Bytes of an element of an activation.
    pub const fn element(self) -> u64 {
        match self {
            Self::Bf16 => 2,
            Self::F32 => 4,
        }
    }

    /// Bytes per parameter of weight, gradient and optimizer.
    pub const fn per_parameter(self) -> [u64; 3] {
        match self {
            Self::Bf16 => [2, 4, 12],
            Self::F32 => [4, 4, 8],
        }
    }
}

/// Which trainer's activations are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Keeps {
    /// Megatron-LM's, dropout included, attention not fused.
    #[default]
    Megatron,
    /// pp-model's.
    PpModel,
}

/// How a GPT is run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GptRun {
    /// Sequences per microbatch.
    pub micro_batch: u32,
    /// Number types.
    pub precision: Precision,
    /// What layers keep.
    pub keeps: Keeps,
    /// Operations that a device does per second, in 10^12: what is reached, not what the data sheet says.
    pub teraflops: f64,
    /// Whether replicas deal out the optimizer's state among them.
    pub shard_optimizer: bool,
}

/// Why there is no estimate.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum GptError {
    /// A size of zero.
    #[error("{flag} is 0, but must be at least 1")]
    Zero {
        /// The flag.
        flag: &'static str,
    },
    /// A size beyond all models.
    #[error("{flag} {size} is more than {most}, the most that is planned for")]
    Size {
        /// The flag.
        flag: &'static str,
        /// The size given.
        size: u32,
        /// The most.
        most: u32,
    },
    /// Heads of no whole size.
    #[error(
        "--hidden-size {hidden} does not divide over --num-heads {heads}; nearest that works: --hidden-size {}, or \
         --num-heads {}",
        nearest_multiple(*hidden, *heads),
        nearest_divisor(*hidden, *heads)
    )]
    Heads {
        /// Hidden size.
        hidden: u32,
        /// Heads.
        heads: u32,
    },
    /// A device that does nothing, or no number.
    #[error("--flops {teraflops} is no speed; write the 10^12 operations per second that are reached, such as 400")]
    Speed {
        /// The speed given.
        teraflops: f64,
    },
    /// A model of which one layer or microbatch is beyond all measure.
    #[error("a model of this shape takes more than {most} {what}; use smaller sizes")]
    TooLarge {
        /// Of what.
        what: &'static str,
        /// The most.
        most: u64,
    },
}

/// Operations per microbatch of a layer or of the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operations {
    /// In the forward.
    pub forward: u128,
    /// In the backward for the input.
    pub backward_input: u128,
    /// In the backward for the weights.
    pub backward_weight: u128,
}

/// The most of anything: sums over all microbatches and stages stay within 64 bits.
const MOST: u64 = 1 << 50;
/// The most of a size other than the number of layers.
const MAX_SIZE: u32 = 1 << 24;

impl GptShape {
    /// Checks the sizes.
    ///
    /// # Errors
    /// [`GptError::Zero`], [`GptError::Size`], [`GptError::Heads`].
    pub fn check(&self) -> Result<(), GptError> {
        let sizes = [
            ("--hidden-size", self.hidden),
            ("--num-layers", self.layers),
            ("--num-heads", self.heads),
            ("--seq-length", self.seq),
            ("--vocab-size", self.vocab),
        ];
        if let Some((flag, _)) = sizes.into_iter().find(|&(_, size)| size == 0) {
            return Err(GptError::Zero { flag });
        }
        let most = |flag| if flag == "--num-layers" { MAX_BALANCED_LAYERS as u32 } else { MAX_SIZE };
        if let Some((flag, size)) = sizes.into_iter().find(|&(flag, size)| size > most(flag)) {
            return Err(GptError::Size { flag, size, most: most(flag) });
        }
        if !self.hidden.is_multiple_of(self.heads) {
            return Err(GptError::Heads { hidden: self.hidden, heads: self.heads });
        }
        Ok(())
    }

    /// Parameters of one layer.
    pub const fn layer_parameters(&self) -> u128 {
        let h = self.hidden as u128;
        12 * h * h + 13 * h
    }

    /// Parameters of the embeddings of tokens and positions.
    pub const fn embedding_parameters(&self) -> u128 {
        (self.vocab as u128 + self.seq as u128) * self.hidden as u128
    }

    /// Parameters of the final norm and the head, as held on the last stage.
    pub const fn head_parameters(&self) -> u128 {
        (self.vocab as u128 + 2) * self.hidden as u128
    }

    /// Parameters that are trained; a tied head's weight counts once.
    pub const fn parameters(&self) -> u128 {
        let twice = if self.tied { self.vocab as u128 * self.hidden as u128 } else { 0 };
        self.layers as u128 * self.layer_parameters() + self.embedding_parameters() + self.head_parameters() - twice
    }

    /// Operations of one layer on a microbatch of `b` sequences.
    pub const fn layer_operations(&self, b: u32) -> Operations {
        let (b, s, h) = (b as u128, self.seq as u128, self.hidden as u128);
        let weights = 24 * b * s * h * h;
        let scores = self.core_operations(b as u32);
        Operations { forward: weights + scores, backward_input: weights + 2 * scores, backward_weight: weights }
    }

    /// Operations of attention from its scores on, in the forward: `4 b s^2 h`.
    pub const fn core_operations(&self, b: u32) -> u128 {
        let (s, h) = (self.seq as u128, self.hidden as u128);
        4 * b as u128 * s * s * h
    }

    /// Operations of the head on a microbatch of `b` sequences.
    pub const fn head_operations(&self, b: u32) -> Operations {
        let logits = 2 * b as u128 * self.seq as u128 * self.hidden as u128 * self.vocab as u128;
        Operations { forward: logits, backward_input: logits, backward_weight: logits }
    }

    /// The estimate.
    ///
    /// ```
    /// use pp_schedule::plan::{GptRun, GptShape, Keeps, Precision};
    /// let gpt2 = GptShape { hidden: 768, layers: 12, heads: 12, seq: 1024, vocab: 50257, tied: true };
    /// assert_eq!(gpt2.parameters(), 124_439_808);
    /// let run = GptRun {
    ///     micro_batch: 4,
    ///     precision: Precision::Bf16,
    ///     keeps: Keeps::Megatron,
    ///     teraflops: 100.0,
    ///     shard_optimizer: false,
    /// };
    /// let model = gpt2.model(&run).unwrap();
    /// // s b h (34 + 5 a s / h)
    /// assert_eq!(model.layers[0].part.activation, 1024 * 4 * 768 * (34 + 5 * 12 * 1024 / 768));
    /// ```
    ///
    /// # Errors
    /// [`GptError`] for sizes and speeds that are none.
    pub fn model(&self, run: &GptRun) -> Result<Model, GptError> {
        self.check()?;
        if run.micro_batch == 0 {
            return Err(GptError::Zero { flag: "--micro-batch-size" });
        }
        if run.micro_batch > MAX_SIZE {
            return Err(GptError::Size { flag: "--micro-batch-size", size: run.micro_batch, most: MAX_SIZE });
        }
        if !(run.teraflops.is_finite() && run.teraflops > 0.0) {
            return Err(GptError::Speed { teraflops: run.teraflops });
        }
        let bytes = TokenBytes::new(self, run);
        let of = |operations, parameters, [activation, deferred]: [u128; 2]| {
            self.part(run, operations, parameters, [activation, deferred])
        };
        let part = of(self.layer_operations(run.micro_batch), self.layer_parameters(), bytes.layer)?;
        let core = Core {
            forward: ticks(self.core_operations(run.micro_batch), run)?,
            bytes: self.per_microbatch(run, bytes.core)?,
        };
        let message = self.per_microbatch(run, bytes.input)?;
        let nothing = Operations { forward: 0, backward_input: 0, backward_weight: 0 };
        Ok(Model {
            layers: vec![Layer { part, input: message, core: Some(core) }; self.layers as usize],
            embedding: of(nothing, self.embedding_parameters(), bytes.embedding)?,
            head: of(self.head_operations(run.micro_batch), self.head_parameters(), bytes.head)?,
            message,
        })
    }

    fn part(
        &self,
        run: &GptRun,
        operations: Operations,
        parameters: u128,
        [activation, deferred]: [u128; 2],
    ) -> Result<Part, GptError> {
        let [weight, gradient, optimizer] = run.precision.per_parameter();
        let (whole, sharded) = match run.shard_optimizer {
            true => (weight + gradient, optimizer),
            false => (weight + gradient + optimizer, 0),
        };
        let of_parameters = |bytes: u64| at_most(parameters * u128::from(bytes), "bytes of weights");
        Ok(Part {
            forward: ticks(operations.forward, run)?,
            backward_input: ticks(operations.backward_input, run)?,
            backward_weight: ticks(operations.backward_weight, run)?,
            activation: self.per_microbatch(run, activation)?,
            deferred: self.per_microbatch(run, deferred)?,
            weights: Weights {
                replicated: of_parameters(whole)?,
                sharded: of_parameters(sharded)?,
                gradient: of_parameters(gradient)?,
            },
        })
    }

    fn per_microbatch(&self, run: &GptRun, per_token: u128) -> Result<u64, GptError> {
        at_most(per_token * u128::from(run.micro_batch) * u128::from(self.seq), "bytes of activations per microbatch")
    }
}

/// Bytes per token: in flight, and deferred.
struct TokenBytes {
    layer: [u128; 2],
    head: [u128; 2],
    embedding: [u128; 2],
    /// Of the layer's kept ones, those of attention's scores.
    core: u128,
    /// Of a layer's input.
    input: u128,
}

impl TokenBytes {
    fn new(shape: &GptShape, run: &GptRun) -> Self {
        let (h, vocab, e) = (u128::from(shape.hidden), u128::from(shape.vocab), u128::from(run.precision.element()));
        let scores = u128::from(shape.heads) * u128::from(shape.seq);
        let input = e * h;
        match run.keeps {
            Keeps::Megatron => {
                let core = (2 * e + 1) * scores;
                let head = 2 * e * h + 4 * vocab;
                let layer = [16 * e * h + 2 * h + core, 16 * e * h];
                Self { layer, head: [head, head], embedding: [h, input], core, input }
            }
            Keeps::PpModel => {
                let core = e * scores;
                let head = [e * (2 * h + vocab + 2), e * (3 * h + vocab + 2)];
                let layer = [e * (16 * h + 4) + core, e * (20 * h + 4)];
                Self { layer, head, embedding: [0, input], core, input }
            }
        }
    }
}

/// Work takes at least a tick.
fn ticks(operations: u128, run: &GptRun) -> Result<u64, GptError> {
    let ticks = operations as f64 / (run.teraflops * 1e12) * TICKS_PER_SECOND;
    let least = if operations == 0 { 0 } else { 1 };
    if ticks <= MOST as f64 {
        Ok((ticks.round() as u64).max(least))
    } else {
        Err(GptError::TooLarge { what: "nanoseconds per layer and microbatch", most: MOST })
    }
}

fn at_most(value: u128, what: &'static str) -> Result<u64, GptError> {
    u64::try_from(value).ok().filter(|value| *value <= MOST).ok_or(GptError::TooLarge { what, most: MOST })
}

/// The divisor of a size that is nearest to a number; the smaller of two.
fn nearest_divisor(size: u32, to: u32) -> u32 {
    let divisors =
        (1..=size).take_while(|other| *other <= to.saturating_mul(2)).filter(|other| size.is_multiple_of(*other));
    divisors.min_by_key(|divisor| divisor.abs_diff(to)).unwrap_or(1)
}

const fn nearest_multiple(value: u32, of: u32) -> u64 {
    let (value, of) = (value as u64, of as u64);
    let below = value / of * of;
    if below > 0 && value - below <= below + of - value { below } else { below + of }
}
