//! What was typed. Nothing here is checked beyond its type; [`crate::TrainConfig`] does that.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser};
use pp_schedule::ScheduleKind;

use crate::device::DeviceArgs;
use crate::policy::PolicyArgs;

const DEFAULT_MICROBATCHES: u32 = 8;

const EXIT_CODES: &str = "\
Exit codes:
  0  trained (or, with --dry-run, everything is valid)
  1  failed
  2  bad arguments or configuration, found before anything started, or ranks
     that disagree, found when they meet
  3  a rank or its peer was lost, or did not answer within --timeout
  130, 143  stopped by SIGINT or SIGTERM after the step in progress

Several ranks are processes of their own; `cargo xtask launch --pp 2 ...` starts
them, and so do torchrun, srun and mpirun, whose variables tell each its place
(--launcher). By hand, give each --rank, --world-size and --rendezvous-file or
--rendezvous, or PP_RANK, PP_WORLD_SIZE, PP_RENDEZVOUS_FILE, PP_RENDEZVOUS. With
PP_STDIN_GUARD=1 a rank exits with 3 as soon as its standard input is closed.";

/// Trains a GPT on the bytes of a text, its layers cut over pipeline ranks.
#[derive(Clone, Debug, Parser)]
#[command(name = "pp-train", version, after_help = EXIT_CODES, allow_negative_numbers = true, args_override_self = true)]
pub struct Args {
    /// Schedule [default: none for one rank, 1f1b, or with --vp interleaved]
    #[arg(long, value_name = "NAME", help_heading = "Pipeline", long_help = schedule_help())]
    pub schedule: Option<String>,

    /// A schedule made elsewhere, in torch's CSV or as JSON; proved before anything starts
    ///
    /// Ranks, chunks, microbatches and their order are the file's. Cells of communication, if there are any, are kept as
    /// they stand; without them transfers are added.
    #[arg(long, value_name = "FILE", help_heading = "Pipeline")]
    pub schedule_csv: Option<PathBuf>,

    /// Pipeline ranks [default: 1, or as in --schedule-csv]
    #[arg(long, value_name = "N", help_heading = "Pipeline")]
    #[arg(visible_alias = "pipeline-model-parallel-size")]
    pub pp: Option<u32>,

    /// Model chunks per rank [default: 1, or as the schedule has]
    #[arg(long, value_name = "N", help_heading = "Pipeline")]
    #[arg(visible_alias = "num-virtual-stages-per-pipeline-rank")]
    pub vp: Option<u32>,

    /// Microbatches that a chunk runs in a row, interleaved only [default: --pp]
    #[arg(long, value_name = "N", help_heading = "Pipeline")]
    #[arg(visible_alias = "microbatch-group-size-per-virtual-pipeline-stage")]
    pub group_size: Option<u32>,

    /// Interleaved, interleaved-zb and dualpipe-v with any number of microbatches, at the price of bubbles (no other
    /// schedule needs it)
    #[arg(long, help_heading = "Pipeline")]
    pub allow_bubbles: bool,

    /// Order of GPipe's backwards: reverse or ascending [default: reverse]
    #[arg(long, value_name = "ORDER", help_heading = "Pipeline")]
    pub gpipe_backward: Option<String>,

    /// How transfers are posted and waited for.
    #[command(flatten)]
    pub policy: PolicyArgs,

    /// Layers of each stage, such as 2,2,3,1, or auto to balance their cost [default: as many on each]
    #[arg(long, value_name = "COUNTS", allow_hyphen_values = true, help_heading = "Layers")]
    pub layer_split: Option<String>,

    /// What stands on each stage, in Megatron's form: E embedding, t layer, L loss, such as "Et*2|(t|)*3,L"
    #[arg(long, value_name = "LAYOUT", help_heading = "Layers", visible_alias = "pipeline-model-parallel-layout")]
    pub pipeline_layout: Option<String>,

    /// Layers of the first rank; the other ranks share the rest
    #[arg(long, value_name = "N", help_heading = "Layers")]
    pub decoder_first_pipeline_num_layers: Option<u32>,

    /// Layers of the last rank; the other ranks share the rest
    #[arg(long, value_name = "N", help_heading = "Layers")]
    pub decoder_last_pipeline_num_layers: Option<u32>,

    /// Count the embedding as a layer of the first stage
    #[arg(long, help_heading = "Layers")]
    pub account_for_embedding_in_pipeline_split: bool,

    /// Count the loss as a layer of the last stage
    #[arg(long, help_heading = "Layers")]
    pub account_for_loss_in_pipeline_split: bool,

    /// Data-parallel replicas; only 1 works yet
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Pipeline")]
    #[arg(visible_alias = "data-parallel-size")]
    pub dp: u32,

    /// Tensor-parallel ranks; only 1 works yet
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Pipeline")]
    #[arg(visible_alias = "tensor-model-parallel-size")]
    pub tp: u32,

    /// Microbatches per step [default: 8, or --global-batch-size / --micro-batch-size, or as in --schedule-csv]
    #[arg(long, value_name = "N", help_heading = "Batch")]
    pub microbatches: Option<u32>,

    /// Sequences per step [default: --microbatches x --micro-batch-size]
    #[arg(long, value_name = "N", help_heading = "Batch")]
    pub global_batch_size: Option<u32>,

    /// Sequences per microbatch
    #[arg(long, value_name = "N", default_value_t = 4, help_heading = "Batch")]
    pub micro_batch_size: u32,

    /// Tokens per sequence
    #[arg(long, value_name = "N", default_value_t = 64, help_heading = "Batch")]
    pub seq_length: u32,

    /// Tokens per sequence by training microbatch, such as 5,7,3,9, in turn [default: --seq-length for each]
    ///
    /// Each is within 1 and --seq-length, which validation keeps. Steps of more microbatches begin again from the first.
    #[arg(long, value_name = "LENGTHS", allow_hyphen_values = true, help_heading = "Batch")]
    pub variable_seq_lengths: Option<String>,

    /// Elements of an activation at one position
    #[arg(long, value_name = "N", default_value_t = 64, help_heading = "Model")]
    pub hidden_size: u32,

    /// Transformer layers
    #[arg(long, value_name = "N", default_value_t = 8, help_heading = "Model")]
    pub num_layers: u32,

    /// Attention heads per layer
    #[arg(long, value_name = "N", default_value_t = 4, help_heading = "Model")]
    #[arg(visible_alias = "num-attention-heads")]
    pub num_heads: u32,

    /// The head uses the token embedding's weight (the default)
    #[arg(long, overrides_with = "untie", help_heading = "Model")]
    pub tied: bool,

    /// The head has a weight of its own
    #[arg(long, help_heading = "Model", visible_alias = "untie-embeddings-and-output-weights")]
    pub untie: bool,

    /// Text to train on; its bytes are the tokens, its last tenth is for validation
    #[arg(long, value_name = "FILE", help_heading = "Data", visible_alias = "data-path")]
    pub data: Option<PathBuf>,

    /// Train on a synthetic text
    #[arg(long, help_heading = "Data")]
    pub mock_data: bool,

    /// Training steps
    #[arg(long, value_name = "N", default_value_t = 320, help_heading = "Training")]
    pub train_iters: u32,

    /// Steps between validations [default: only after the last]
    #[arg(long, value_name = "N", help_heading = "Training")]
    pub eval_interval: Option<u32>,

    /// The most steps of one validation
    #[arg(long, value_name = "N", default_value_t = 32, help_heading = "Training")]
    pub eval_iters: u32,

    /// Seed of the initial weights, the batches and the synthetic text
    #[arg(long, value_name = "N", default_value_t = 1234, help_heading = "Training")]
    pub seed: u64,

    /// Highest learning rate, after the warmup
    #[arg(long, value_name = "RATE", default_value_t = 6e-3, allow_hyphen_values = true, help_heading = "Training")]
    pub lr: f64,

    /// Learning rate of the last step [default: a tenth of --lr]
    #[arg(long, value_name = "RATE", allow_hyphen_values = true, help_heading = "Training")]
    pub min_lr: Option<f64>,

    /// Steps of linear warmup [default: a tenth of --train-iters]
    #[arg(long, value_name = "N", help_heading = "Training")]
    pub lr_warmup_iters: Option<u32>,

    /// Weight decay of the matrices (norms and biases have none)
    #[arg(long, value_name = "DECAY", default_value_t = 0.1, allow_hyphen_values = true, help_heading = "Training")]
    pub weight_decay: f64,

    /// Decay of AdamW's first moment
    #[arg(long, value_name = "BETA", default_value_t = 0.9, allow_hyphen_values = true, help_heading = "Training")]
    pub adam_beta1: f64,

    /// Decay of AdamW's second moment
    #[arg(long, value_name = "BETA", default_value_t = 0.95, allow_hyphen_values = true, help_heading = "Training")]
    pub adam_beta2: f64,

    /// Added to the root of AdamW's second moment
    #[arg(long, value_name = "EPS", default_value_t = 1e-8, allow_hyphen_values = true, help_heading = "Training")]
    pub adam_eps: f64,

    /// Largest norm of the whole gradient; 0 does not clip
    #[arg(long, value_name = "NORM", default_value_t = 1.0, allow_hyphen_values = true, help_heading = "Training")]
    pub clip_grad: f64,

    /// What computes, in which numbers, and what messages go through.
    #[command(flatten)]
    pub device: DeviceArgs,

    /// Kernel threads of this rank [default: cores / ranks]
    #[arg(long, value_name = "N", help_heading = "Machine")]
    pub threads: Option<u32>,

    /// The longest wait for another rank
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0, allow_hyphen_values = true, help_heading = "Machine")]
    pub timeout: f64,

    /// How long another rank may give no sign of life before it counts as frozen
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, allow_hyphen_values = true, help_heading = "Machine")]
    pub heartbeat: f64,

    /// Write a JSON line per step
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub metrics: Option<PathBuf>,

    /// Write what every rank did in one step, for Perfetto (ui.perfetto.dev) and `pp-schedule simulate --costs-from`
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub trace: Option<PathBuf>,

    /// The step that --trace writes, counted from 1 [default: the last]
    #[arg(long, value_name = "N", help_heading = "Output")]
    pub trace_iteration: Option<u32>,

    /// Directory for what each rank did last, written when the run fails; `cargo xtask explain DIR` reads it [default: a
    /// fresh one among the temporary files]
    #[arg(long, value_name = "DIR", env = "PP_FLIGHT_DIR", hide_env_values = true, help_heading = "Output")]
    pub flight_dir: Option<PathBuf>,

    /// Rehearse a failure, such as drop:rank=1,send=5, to see how it ends and what `cargo xtask explain` says
    ///
    /// One of drop, shorten, mistype, duplicate (a rank's n-th message: rank=R,send=N), delay (the same, with seconds=S),
    /// kill, freeze (a rank at an action of a step: rank=R,step=S,action=A), stall (the same, with seconds=S). Of each,
    /// seed=N chooses the place. Messages are counted from 1, steps (validations too) and actions from 0. And rough:seed=N,
    /// links that stall and move bytes in pieces, from which nothing may come.
    #[arg(long, value_name = "FAULT", help_heading = "Output")]
    pub inject_fault: Option<String>,

    /// Check everything, print configuration and tables, start nothing
    #[arg(long, help_heading = "Output")]
    pub dry_run: bool,

    /// This process's rank
    #[arg(long, value_name = "N", env = "PP_RANK", hide_env_values = true, help_heading = "World")]
    pub rank: Option<u32>,

    /// This process's rank among those of its host [default: --rank, where all ranks are on one host]
    #[arg(long, value_name = "N", env = "PP_LOCAL_RANK", hide_env_values = true, help_heading = "World")]
    pub local_rank: Option<u32>,

    /// Number of ranks
    #[arg(long, value_name = "N", env = "PP_WORLD_SIZE", hide_env_values = true, help_heading = "World")]
    pub world_size: Option<u32>,

    /// Who says which rank this process is: auto, flags, torchrun, slurm, openmpi, single
    ///
    /// With auto, all of them are looked at, and refused where they contradict each other.
    #[arg(long, value_name = "SOURCE", default_value = "auto", env = "PP_LAUNCHER", hide_env_values = true)]
    #[arg(help_heading = "World")]
    pub launcher: String,

    /// File through which rank 0 tells the others its address
    #[arg(long, value_name = "FILE", env = "PP_RENDEZVOUS_FILE", hide_env_values = true, help_heading = "World")]
    pub rendezvous_file: Option<PathBuf>,

    /// Where rank 0 listens and the others find it, instead of what the source of the rank says
    #[arg(long, value_name = "HOST:PORT", env = "PP_RENDEZVOUS", hide_env_values = true, help_heading = "World")]
    pub rendezvous: Option<String>,

    /// The port alone, with the host that the source of the rank says
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..), help_heading = "World")]
    pub rendezvous_port: Option<u16>,

    /// Address of this machine that rank 0 listens on [default: loopback, or that of --rendezvous]
    #[arg(long, value_name = "ADDRESS", help_heading = "World")]
    pub bind: Option<IpAddr>,

    /// File with the secret that all ranks share, 64 hexadecimal digits, for its owner alone [or PP_SECRET]
    #[arg(long, value_name = "FILE", env = "PP_SECRET_FILE", hide_env_values = true, help_heading = "World")]
    pub secret_file: Option<PathBuf>,
}

impl Args {
    /// The arguments of a command line given as words, without the program's name.
    ///
    /// # Errors
    /// Clap's, for words that are no arguments of ours.
    pub fn from_words<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<Self, clap::Error> {
        Self::try_parse_from(std::iter::once("pp-train").chain(words))
    }
    /// Microbatches per step, unless the batch size says otherwise.
    pub(crate) fn microbatches(&self) -> u32 {
        self.microbatches.unwrap_or(DEFAULT_MICROBATCHES)
    }

    /// The size that a flag gives, to change.
    pub(crate) fn size_mut(&mut self, flag: &str) -> Option<&mut u32> {
        Some(match flag {
            "--pp" => self.pp.get_or_insert(1),
            "--vp" => self.vp.get_or_insert(1),
            "--microbatches" => self.microbatches.get_or_insert(DEFAULT_MICROBATCHES),
            "--global-batch-size" => self.global_batch_size.as_mut()?,
            "--micro-batch-size" => &mut self.micro_batch_size,
            "--seq-length" => &mut self.seq_length,
            "--hidden-size" => &mut self.hidden_size,
            "--num-layers" => &mut self.num_layers,
            "--num-heads" => &mut self.num_heads,
            _ => return None,
        })
    }
}

/// The schedules by name.
fn schedule_help() -> String {
    let names = ScheduleKind::ALL.map(ScheduleKind::name).join(", ");
    format!("Schedule: {names} [default: none for one rank, 1f1b, or with --vp interleaved]")
}

/// Flags of whole numbers that may be 0.
const FROM_ZERO: [&str; 7] = [
    "seed",
    "lr-warmup-iters",
    "device-id",
    "rank",
    "local-rank",
    "decoder-first-pipeline-num-layers",
    "decoder-last-pipeline-num-layers",
];

/// Clap's error as one line, without its `error: ` and its hints on usage.
pub fn one_line(error: &clap::Error) -> String {
    if let Some(line) = no_number(error) {
        return line;
    }
    let text = error.to_string();
    let told = text.split("\n\nUsage:").next().unwrap_or_default();
    let told = told.split("\n\nFor more information").next().unwrap_or_default();
    let told = told.replace("\n\n  tip: ", "; ");
    let words: Vec<&str> = told.split_whitespace().collect();
    let line = words.join(" ");
    line.strip_prefix("error: ").unwrap_or(&line).to_owned()
}

/// What is said of a value that is no number, or none that the flag can hold.
fn no_number(error: &clap::Error) -> Option<String> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    if error.kind() != ErrorKind::ValueValidation {
        return None;
    }
    let (name, value) = (text(ContextKind::InvalidArg)?, text(ContextKind::InvalidValue)?);
    let flag = name.split_whitespace().next()?.strip_prefix("--")?;
    let command = Args::command();
    let arg = command.get_arguments().find(|arg| arg.get_long() == Some(flag))?;
    let variable = arg.get_env().map_or_else(String::new, |name| format!(" ({})", name.to_string_lossy()));
    let kind = arg.get_value_parser().type_id();
    if kind == std::any::TypeId::of::<f64>() {
        return Some(format!("--{flag}{variable} `{value}` is not a number"));
    }
    let most = if kind == std::any::TypeId::of::<u64>() { u64::MAX } else { u32::MAX.into() };
    let least = u8::from(!FROM_ZERO.contains(&flag));
    Some(format!("--{flag}{variable} `{value}` is not a whole number of at least {least} and at most {most}"))
}
