//! The flags that say what the model costs, keeps and weighs, and the model they make.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::super::CommandError;
use super::super::costs::{Measured, read_measured};
use super::error::PlanArgsError;
use crate::layout::LayerPartition;
use crate::plan::{GptRun, GptShape, Keeps, Layer, Model, Part, Precision, Weights, measured};
use crate::quantity::{Bytes, QuantityError, Time};

/// Estimates from a shape.
#[derive(Clone, Debug, Args)]
pub(super) struct ShapeArgs {
    /// Transformer layers
    #[arg(long, value_name = "N", help_heading = "Model")]
    pub(super) num_layers: u32,
    /// Elements of an activation at one position; with it, costs and bytes are estimated from the shape
    #[arg(long, value_name = "N", help_heading = "Model", requires_all = ["seq_length", "num_heads"])]
    hidden_size: Option<u32>,
    /// Attention heads per layer
    #[arg(long, value_name = "N", help_heading = "Model", requires = "hidden_size")]
    #[arg(visible_alias = "num-attention-heads")]
    num_heads: Option<u32>,
    /// Tokens per sequence
    #[arg(long, value_name = "N", help_heading = "Model", requires = "hidden_size")]
    seq_length: Option<u32>,
    /// Tokens in the vocabulary
    #[arg(long, value_name = "N", default_value_t = 50257, help_heading = "Model")]
    vocab_size: u32,
    /// The head has a weight of its own
    #[arg(long, help_heading = "Model", visible_alias = "untie-embeddings-and-output-weights")]
    untie: bool,
    /// Number types: bf16 (gradients and optimizer in f32) or f32
    #[arg(long, value_enum, default_value_t = Dtype::Bf16, help_heading = "Model")]
    dtype: Dtype,
    /// Whose activations are kept
    #[arg(long, value_enum, default_value_t = KeepsArg::Megatron, help_heading = "Model")]
    activations: KeepsArg,
    /// 10^12 operations per second that a device reaches
    #[arg(long, value_name = "TERA", help_heading = "Model", requires = "hidden_size")]
    flops: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Dtype {
    /// Two bytes per element, 18 per parameter
    Bf16,
    /// Four bytes per element, 16 per parameter
    F32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum KeepsArg {
    /// Megatron-LM's: s b h (34 + 5 a s / h) bytes per layer in bf16
    Megatron,
    /// pp-model's: s b (16 h + a s + 4) elements per layer
    PpModel,
}

/// What is known better than by estimate; each of these stands in for it.
#[derive(Clone, Debug, Args)]
pub(super) struct CostArgs {
    /// Time of a layer per microbatch: F,B or F,I,W, such as 2.1ms,4.2ms; plain numbers are milliseconds
    #[arg(long, value_name = "TIMES", help_heading = "Costs")]
    layer_cost: Option<CostTriple>,
    /// The same of the embedding
    #[arg(long, value_name = "TIMES", help_heading = "Costs")]
    embedding_cost: Option<CostTriple>,
    /// The same of the head with its loss
    #[arg(long, value_name = "TIMES", help_heading = "Costs")]
    head_cost: Option<CostTriple>,
    /// Take times from a step that was measured, as the trainer's --trace writes it: medians by stage, spread over its layers
    #[arg(long, value_name = "TRACE.json", help_heading = "Costs", conflicts_with_all = ["layer_cost", "flops"])]
    costs_from: Option<PathBuf>,
    /// Layers of each stage in that step [default: as many on each]
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', help_heading = "Costs", requires = "costs_from")]
    measured_split: Option<Vec<u32>>,
    /// Bytes that a layer keeps per microbatch until its backward
    #[arg(long, value_name = "BYTES", help_heading = "Costs")]
    activation_bytes: Option<Bytes>,
    /// Bytes that a layer keeps per microbatch from I to W [default: by shape, else --activation-bytes]
    #[arg(long, value_name = "BYTES", help_heading = "Costs")]
    deferred_bytes: Option<Bytes>,
    /// Bytes that the head keeps per microbatch until its backward
    #[arg(long, value_name = "BYTES", help_heading = "Costs")]
    head_activation_bytes: Option<Bytes>,
    /// Bytes of a layer's weights, gradients and optimizer together
    #[arg(long, value_name = "BYTES", help_heading = "Costs")]
    weight_bytes: Option<Bytes>,
    /// The same of the embedding
    #[arg(long, value_name = "BYTES", help_heading = "Costs")]
    embedding_weight_bytes: Option<Bytes>,
    /// The same of the head
    #[arg(long, value_name = "BYTES", help_heading = "Costs")]
    head_weight_bytes: Option<Bytes>,
    /// Bytes of an activation between stages, and of a layer's input
    #[arg(long, value_name = "BYTES", help_heading = "Costs")]
    message_bytes: Option<Bytes>,
}

/// `F,B` or `F,I,W`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CostTriple([u64; 3]);

impl std::str::FromStr for CostTriple {
    type Err = PlanArgsError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let times = text.split(',').map(|time| Ok(time.parse::<Time>()?.0));
        let times: Vec<u64> = times.collect::<Result<_, QuantityError>>()?;
        match times[..] {
            [forward, backward] => Ok(Self([forward, backward / 2, backward - backward / 2])),
            [forward, input, weight] => Ok(Self([forward, input, weight])),
            _ => Err(PlanArgsError::Triple { text: text.to_owned(), given: times.len() }),
        }
    }
}

/// A model, and what it was made from.
pub(super) struct Made {
    pub(super) model: Model,
    pub(super) shape: Option<GptShape>,
    /// The speed that times were estimated with.
    pub(super) teraflops: Option<f64>,
    /// What nobody said and was assumed, a line for each.
    pub(super) assumed: Vec<String>,
}

/// The model that the flags make.
pub(super) fn make(
    shape: &ShapeArgs,
    costs: &CostArgs,
    micro_batch: u32,
    shard_optimizer: bool,
) -> Result<Made, CommandError> {
    if shape.flops.is_none() && costs.layer_cost.is_none() && costs.costs_from.is_none() {
        return Err(PlanArgsError::NoCosts.into());
    }
    let mut assumed = Vec::new();
    let known = shape.known();
    let mut model = match &known {
        Some(shape_known) => {
            shape_known.model(&shape.run(micro_batch, shard_optimizer)).map_err(PlanArgsError::from)?
        }
        None => Model { layers: vec![Layer::default(); shape.num_layers as usize], ..Model::default() },
    };
    costs.put_times(&mut model, shape.flops.is_some(), &mut assumed)?;
    costs.put_bytes(&mut model, known.is_some());
    Ok(Made { model, shape: known, teraflops: shape.flops, assumed })
}

impl ShapeArgs {
    fn known(&self) -> Option<GptShape> {
        // clap has the three together.
        let (hidden, heads, seq) = (self.hidden_size?, self.num_heads?, self.seq_length?);
        Some(GptShape { hidden, layers: self.num_layers, heads, seq, vocab: self.vocab_size, tied: !self.untie })
    }

    /// Without a speed any will do: the times are replaced, and only their ratios are used.
    fn run(&self, micro_batch: u32, shard_optimizer: bool) -> GptRun {
        GptRun {
            micro_batch,
            precision: match self.dtype {
                Dtype::Bf16 => Precision::Bf16,
                Dtype::F32 => Precision::F32,
            },
            keeps: match self.activations {
                KeepsArg::Megatron => Keeps::Megatron,
                KeepsArg::PpModel => Keeps::PpModel,
            },
            teraflops: self.flops.unwrap_or(1.0),
            shard_optimizer,
        }
    }
}

fn set_times(part: &mut Part, CostTriple([forward, input, weight]): CostTriple) {
    (part.forward, part.backward_input, part.backward_weight) = (forward, input, weight);
}

const fn times(part: Part) -> CostTriple {
    CostTriple([part.forward, part.backward_input, part.backward_weight])
}

/// `ticks * new / old`, for what took `ticks` where something else took `old` that takes `new`.
fn in_ratio(ticks: u64, new: u64, old: u64) -> u64 {
    let scaled = u128::from(ticks) * u128::from(new) / u128::from(old.max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

impl CostArgs {
    /// Puts times that were typed or measured in the place of those estimated.
    fn put_times(&self, model: &mut Model, estimated: bool, assumed: &mut Vec<String>) -> Result<(), CommandError> {
        let told = match (&self.costs_from, self.layer_cost) {
            (Some(_), _) => Some(self.measured(model.layers.len() as u32, assumed)?),
            (None, Some(cost)) => {
                let mut layer = Layer::default();
                set_times(&mut layer.part, cost);
                Some(Model { layers: vec![layer; model.layers.len()], ..Model::default() })
            }
            (None, None) => None,
        };
        if let Some(told) = told {
            let head_forward = model.head.forward;
            let before = model.layers[0].part.forward;
            for (layer, told) in model.layers.iter_mut().zip(&told.layers) {
                if let Some(core) = &mut layer.core {
                    core.forward = in_ratio(core.forward, told.part.forward, layer.part.forward);
                }
                set_times(&mut layer.part, times(told.part));
            }
            if self.costs_from.is_some() {
                set_times(&mut model.embedding, times(told.embedding));
                set_times(&mut model.head, times(told.head));
            } else if !estimated && head_forward > 0 {
                let scaled = in_ratio(head_forward, told.layers[0].part.forward, before);
                if scaled > Time::MAX.0 {
                    return Err(PlanArgsError::Head.into());
                }
                set_times(&mut model.head, CostTriple([scaled; 3]));
                assumed
                    .push("the head is taken to be to a layer as by its operations; --head-cost says else".to_owned());
            }
        }
        for (part, cost) in [(&mut model.embedding, self.embedding_cost), (&mut model.head, self.head_cost)] {
            if let Some(cost) = cost {
                set_times(part, cost);
            }
        }
        Ok(())
    }

    /// Times by layer from a trace.
    fn measured(&self, n_layers: u32, assumed: &mut Vec<String>) -> Result<Model, CommandError> {
        let Some(path) = &self.costs_from else { return Ok(Model::default()) };
        let bad = |why: String| CommandError::Input { file: path.display().to_string(), why };
        let Measured { placement, costs, assumed: more } = read_measured(path)?;
        assumed.extend(more);
        let layers = match &self.measured_split {
            Some(counts) => LayerPartition::from_counts(counts, n_layers, placement).map_err(|error| {
                bad(format!(
                    "--measured-split has to be how its {} stages shared the layers: {error}",
                    placement.n_stages()
                ))
            })?,
            None => LayerPartition::even(n_layers, placement).map_err(|error| {
                bad(format!("its stages did not have as many layers each, so give --measured-split: {error}"))
            })?,
        };
        measured(&costs, placement.n_stages(), &layers).map_err(|error| bad(error.to_string()))
    }

    /// Puts bytes that were typed in the place of those estimated.
    fn put_bytes(&self, model: &mut Model, estimated: bool) {
        let set = |place: &mut u64, bytes: Option<Bytes>| *place = bytes.map_or(*place, |bytes| bytes.0);
        let weigh = |part: &mut Part, bytes: Option<Bytes>| {
            if let Some(Bytes(replicated)) = bytes {
                part.weights = Weights { replicated, sharded: 0, ..part.weights };
            }
        };
        set(&mut model.message, self.message_bytes);
        for layer in &mut model.layers {
            weigh(&mut layer.part, self.weight_bytes);
            set(&mut layer.part.activation, self.activation_bytes);
            if !estimated {
                layer.part.deferred = layer.part.activation;
            }
            set(&mut layer.part.deferred, self.deferred_bytes);
            layer.input = model.message;
        }
        weigh(&mut model.embedding, self.embedding_weight_bytes);
        weigh(&mut model.head, self.head_weight_bytes);
        set(&mut model.head.activation, self.head_activation_bytes);
        if !estimated {
            model.head.deferred = model.head.activation;
        }
    }
}
