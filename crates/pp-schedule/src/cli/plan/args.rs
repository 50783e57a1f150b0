//! What is typed, and the request it makes.

use clap::{Args, ValueEnum};

use super::super::CommandError;
use crate::config::ScheduleKind;
use crate::plan::{
    Bandwidth, Batch, Bytes, GptError, GptRun, GptShape, GroupSizes, Keeps, Layer, Machine, Model, Precision,
    QuantityError, Recompute, Request, Time, Way,
};

/// The flags that say what to plan for.
#[derive(Clone, Debug, Args)]
pub(super) struct AskArgs {
    /// Pipeline ranks
    #[arg(long, visible_alias = "pipeline-model-parallel-size", help_heading = "Ranks")]
    #[arg(required_unless_present = "gpus", conflicts_with = "gpus")]
    pp: Option<u32>,
    /// Devices: every number of pipeline ranks that divides them is tried, the rest is data parallel
    #[arg(long, value_name = "N", help_heading = "Ranks")]
    gpus: Option<u32>,
    /// Data-parallel replicas, with --pp
    #[arg(
        long,
        default_value_t = 1,
        visible_alias = "data-parallel-size",
        conflicts_with = "gpus",
        help_heading = "Ranks"
    )]
    dp: u32,
    /// Microbatches per step and replica
    #[arg(long, short = 'm', help_heading = "Batch", conflicts_with = "global_batch_size")]
    #[arg(required_unless_present = "global_batch_size")]
    microbatches: Option<u32>,
    /// Sequences per step, over all replicas
    #[arg(long, value_name = "N", help_heading = "Batch")]
    global_batch_size: Option<u32>,
    /// Sequences per microbatch
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Batch")]
    micro_batch_size: u32,
    #[command(flatten)]
    shape: ShapeArgs,
    #[command(flatten)]
    costs: CostArgs,
    #[command(flatten)]
    machine: MachineArgs,
    #[command(flatten)]
    search: SearchArgs,
}

/// Estimates from a shape.
#[derive(Clone, Debug, Args)]
struct ShapeArgs {
    /// Transformer layers
    #[arg(long, value_name = "N", help_heading = "Model")]
    num_layers: u32,
    /// Elements of an activation at one position; with it, costs and bytes are estimated from the shape
    #[arg(long, value_name = "N", help_heading = "Model", requires_all = ["seq_length", "num_heads", "flops"])]
    hidden_size: Option<u32>,
    /// Attention heads per layer
    #[arg(
        long,
        value_name = "N",
        help_heading = "Model",
        visible_alias = "num-attention-heads",
        requires = "hidden_size"
    )]
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
struct CostArgs {
    /// Time of a layer per microbatch: F,B or F,I,W, such as 2.1ms,4.2ms; plain numbers are milliseconds
    #[arg(long, value_name = "TIMES", help_heading = "Costs")]
    layer_cost: Option<CostTriple>,
    /// The same of the embedding
    #[arg(long, value_name = "TIMES", help_heading = "Costs")]
    embedding_cost: Option<CostTriple>,
    /// The same of the head with its loss
    #[arg(long, value_name = "TIMES", help_heading = "Costs")]
    head_cost: Option<CostTriple>,
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

/// Memory and links.
#[derive(Clone, Debug, Args)]
struct MachineArgs {
    /// Bytes that a device has for all this, such as 80GiB [default: no limit]
    #[arg(long, value_name = "BYTES", help_heading = "Machine")]
    memory: Option<Bytes>,
    /// Time from when a message has left until it is there
    #[arg(long, value_name = "TIME", default_value = "0", help_heading = "Machine")]
    latency: Time,
    /// Bytes per second of the link between neighbours, such as 50GB/s [default: messages take the latency alone]
    #[arg(long, value_name = "BANDWIDTH", help_heading = "Machine")]
    bandwidth: Option<Bandwidth>,
    /// Bytes per second at which replicas add up gradients after the step [default: that is free]
    #[arg(long, value_name = "BANDWIDTH", help_heading = "Machine", requires = "hidden_size")]
    dp_bandwidth: Option<Bandwidth>,
    /// Replicas deal out the optimizer's state among them
    #[arg(long, help_heading = "Machine", requires = "hidden_size")]
    shard_optimizer: bool,
}

/// What to try.
#[derive(Clone, Debug, Args)]
struct SearchArgs {
    /// Schedules to try [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help_heading = "Search")]
    schedules: Option<Vec<ScheduleKind>>,
    /// Chunks per rank to try [default: all that there are layers for]
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', help_heading = "Search")]
    vps: Option<Vec<u32>>,
    /// How many group sizes to try per number of chunks, or all
    #[arg(long, value_name = "N", default_value = "16", value_parser = group_sizes, help_heading = "Search")]
    group_sizes: GroupSizes,
    /// What to compute again: none, selective, full [default: all that are known]
    #[arg(long, value_name = "WAYS", value_delimiter = ',', help_heading = "Search")]
    recompute: Option<Vec<Recompute>>,
}

fn group_sizes(text: &str) -> Result<GroupSizes, String> {
    match text.parse() {
        _ if text.eq_ignore_ascii_case("all") => Ok(GroupSizes::All),
        Ok(count) if count >= 2 => Ok(GroupSizes::Sample(count)),
        _ => Err(format!("`{text}` is neither `all` nor a number of at least 2")),
    }
}

/// `F,B` or `F,I,W`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CostTriple([u64; 3]);

impl std::str::FromStr for CostTriple {
    type Err = PlanArgsError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let times: Vec<u64> =
            text.split(',').map(|time| Ok(time.parse::<Time>()?.0)).collect::<Result<_, QuantityError>>()?;
        match times[..] {
            [forward, backward] => Ok(Self([forward, backward / 2, backward - backward / 2])),
            [forward, input, weight] => Ok(Self([forward, input, weight])),
            _ => Err(PlanArgsError::Triple { text: text.to_owned(), given: times.len() }),
        }
    }
}

/// Arguments that make no request.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PlanArgsError {
    /// A size or time that is none.
    #[error(transparent)]
    Quantity(#[from] QuantityError),
    /// A shape that is none.
    #[error(transparent)]
    Gpt(#[from] GptError),
    /// Another number of times.
    #[error("`{text}` has {given} times; write F,B or F,I,W such as 2.1ms,4.2ms")]
    Triple {
        /// What was typed.
        text: String,
        /// How many times it has.
        given: usize,
    },
    /// Nothing says what a layer costs.
    #[error(
        "nothing says what a layer costs: give --layer-cost, or --hidden-size, --num-heads, --seq-length and --flops"
    )]
    NoCosts,
    /// A size of zero, or too large.
    #[error("{flag} {value} is not within 1..={most}")]
    Size {
        /// The flag.
        flag: &'static str,
        /// Its value.
        value: u32,
        /// The most.
        most: u32,
    },
}

/// A request and what it was made from.
pub(super) struct Asked {
    pub(super) request: Request,
    pub(super) shape: Option<GptShape>,
    pub(super) run: Option<GptRun>,
    pub(super) micro_batch: Option<u32>,
    /// What nobody said and was assumed, a line for each.
    pub(super) assumed: Vec<String>,
}

const MAX_DEVICES: u32 = 1 << 16;
const MAX_LAYERS: u32 = crate::layout::MAX_BALANCED_LAYERS as u32;

impl AskArgs {
    pub(super) fn request(&self, top: usize) -> Result<Asked, CommandError> {
        let sizes = [
            ("--pp", self.pp, MAX_DEVICES),
            ("--gpus", self.gpus, MAX_DEVICES),
            ("--dp", Some(self.dp), MAX_DEVICES),
            ("--num-layers", Some(self.shape.num_layers), MAX_LAYERS),
            ("--micro-batch-size", Some(self.micro_batch_size), 1 << 24),
        ];
        for (flag, value, most) in sizes {
            if let Some(value) = value.filter(|value| !(1..=most).contains(value)) {
                return Err(PlanArgsError::Size { flag, value, most }.into());
            }
        }
        let estimate = self.shape.estimate(self).map_err(PlanArgsError::from)?;
        let (shape, run) = estimate.as_ref().map(|(shape, run, _)| (*shape, *run)).unzip();
        let mut model = match estimate {
            Some((_, _, model)) => model,
            None if self.costs.layer_cost.is_none() => return Err(PlanArgsError::NoCosts.into()),
            None => Model { layers: vec![Layer::default(); self.shape.num_layers as usize], ..Model::default() },
        };
        self.costs.put_into(&mut model, shape.is_some());
        let batch = match self.global_batch_size {
            Some(global) => Batch::Global { global, micro: self.micro_batch_size },
            None => Batch::Microbatches(self.microbatches.unwrap_or_default()),
        };
        let ways = match (self.gpus, self.pp) {
            (Some(gpus), _) => Way::all(gpus, batch),
            (None, pp) => vec![Way::new(pp.unwrap_or_default(), self.dp, batch)],
        };
        let machine = Machine {
            memory: self.machine.memory.map(|bytes| bytes.0),
            latency: self.machine.latency.0,
            bandwidth: self.machine.bandwidth,
            replica_bandwidth: self.machine.dp_bandwidth,
        };
        let mut request = Request { groups: self.search.group_sizes, top, ..Request::new(model, ways, machine) };
        request.vps = self.search.vps.clone();
        if let Some(kinds) = &self.search.schedules {
            request.kinds = kinds.clone();
        }
        if let Some(recompute) = &self.search.recompute {
            request.recompute = recompute.clone();
        }
        let micro_batch = (shape.is_some() || self.global_batch_size.is_some()).then_some(self.micro_batch_size);
        Ok(Asked { request, shape, run, micro_batch, assumed: Vec::new() })
    }
}

impl ShapeArgs {
    fn estimate(&self, ask: &AskArgs) -> Result<Option<(GptShape, GptRun, Model)>, GptError> {
        // clap has the four together.
        let (Some(hidden), Some(heads), Some(seq), Some(teraflops)) =
            (self.hidden_size, self.num_heads, self.seq_length, self.flops)
        else {
            return Ok(None);
        };
        let (layers, vocab, tied) = (self.num_layers, self.vocab_size, !self.untie);
        let shape = GptShape { hidden, layers, heads, seq, vocab, tied };
        let run = GptRun {
            micro_batch: ask.micro_batch_size,
            precision: match self.dtype {
                Dtype::Bf16 => Precision::Bf16,
                Dtype::F32 => Precision::F32,
            },
            keeps: match self.activations {
                KeepsArg::Megatron => Keeps::Megatron,
                KeepsArg::PpModel => Keeps::PpModel,
            },
            teraflops,
            shard_optimizer: ask.machine.shard_optimizer,
        };
        Ok(Some((shape, run, shape.model(&run)?)))
    }
}

impl CostArgs {
    /// Puts what was typed in the place of what was estimated.
    fn put_into(&self, model: &mut Model, estimated: bool) {
        let set = |place: &mut u64, bytes: Option<Bytes>| {
            if let Some(bytes) = bytes {
                *place = bytes.0;
            }
        };
        let put_cost = |part: &mut crate::plan::Part, cost: Option<CostTriple>| {
            if let Some(CostTriple([forward, input, weight])) = cost {
                (part.forward, part.backward_input, part.backward_weight) = (forward, input, weight);
            }
        };
        let put_weights = |part: &mut crate::plan::Part, bytes: Option<Bytes>| {
            if let Some(bytes) = bytes {
                (part.weights.replicated, part.weights.sharded) = (bytes.0, 0);
            }
        };
        set(&mut model.message, self.message_bytes);
        for layer in &mut model.layers {
            put_cost(&mut layer.part, self.layer_cost);
            put_weights(&mut layer.part, self.weight_bytes);
            set(&mut layer.part.activation, self.activation_bytes);
            if !estimated {
                layer.part.deferred = layer.part.activation;
            }
            set(&mut layer.part.deferred, self.deferred_bytes);
            layer.input = model.message;
        }
        put_cost(&mut model.embedding, self.embedding_cost);
        put_weights(&mut model.embedding, self.embedding_weight_bytes);
        put_cost(&mut model.head, self.head_cost);
        put_weights(&mut model.head, self.head_weight_bytes);
        set(&mut model.head.activation, self.head_activation_bytes);
        if !estimated {
            model.head.deferred = model.head.activation;
        }
    }
}
