//! What is typed, and the request it makes.

use clap::{ArgGroup, Args};

use super::super::CommandError;
use super::error::PlanArgsError;
use super::model::{self, CostArgs, Made, ShapeArgs};
use crate::config::ScheduleKind;
use crate::plan::{Batch, GptShape, GroupSizes, Machine, Recompute, Request, Way};
use crate::quantity::{Bandwidth, Bytes, Time};

/// The flags that say what to plan for.
#[derive(Clone, Debug, Args)]
// One of each, so that whoever gives none is told of both.
#[command(group(ArgGroup::new("ranks").args(["pp", "gpus"]).required(true)))]
#[command(group(ArgGroup::new("batch").args(["microbatches", "global_batch_size"]).required(true)))]
pub(super) struct AskArgs {
    /// Pipeline ranks
    #[arg(long, visible_alias = "pipeline-model-parallel-size", help_heading = "Ranks")]
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
    #[arg(long, short = 'm', help_heading = "Batch")]
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
    /// Play the best N out as programs, with messages in queues, and rank those by it
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Search")]
    play: usize,
}

fn group_sizes(text: &str) -> Result<GroupSizes, String> {
    match text.parse() {
        _ if text.eq_ignore_ascii_case("all") => Ok(GroupSizes::All),
        Ok(count) if count >= 2 => Ok(GroupSizes::Sample(count)),
        _ => Err(format!("`{text}` is neither `all` nor a number of at least 2")),
    }
}

/// A request and what it was made from.
pub(super) struct Asked {
    pub(super) request: Request,
    pub(super) shape: Option<GptShape>,
    pub(super) teraflops: Option<f64>,
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
        let made = model::make(&self.shape, &self.costs, self.micro_batch_size, self.machine.shard_optimizer)?;
        let Made { model, shape, teraflops, mut assumed } = made;
        if self.machine.memory.is_some() && !model.has_bytes() {
            assumed.push(
                "nothing says what takes how many bytes, so --memory bounds nothing; give --activation-bytes and \
                 --weight-bytes, or --hidden-size, --num-heads and --seq-length"
                    .to_owned(),
            );
        }
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
        (request.vps, request.play) = (self.search.vps.clone(), self.search.play);
        if let Some(kinds) = &self.search.schedules {
            request.kinds = kinds.clone();
        }
        if let Some(recompute) = &self.search.recompute {
            request.recompute = recompute.clone();
        }
        let micro_batch = (shape.is_some() || self.global_batch_size.is_some()).then_some(self.micro_batch_size);
        Ok(Asked { request, shape, teraflops, micro_batch, assumed })
    }
}
