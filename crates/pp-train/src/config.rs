//! What was validated: a [`TrainConfig`] can only be a run that makes sense.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pp_comm::Fault;
use pp_comm::mesh::Mesh;
use pp_model::{GptConfig, GptOptions};
use pp_schedule::LayerPartition;

use crate::args::Args;
use crate::device::{Carrier, Compute};
use crate::footprint::{self, Sizes};
use crate::invalid::{Invalid, refuse};
use crate::lr::LrSchedule;
use crate::nearest::{Refusal, Try};
use crate::plan::{FilePlan, Plan, read_file};
use crate::seq_lengths::SeqLengths;
#[cfg(feature = "nccl")]
use crate::world::GpuChoice;
use crate::world::{Environment, Place};

/// The number of tokens: bytes.
pub const VOCAB: usize = 256;

const MAX_SIZE: u32 = 1 << 16;
const MAX_THREADS: u32 = 1024;
const MAX_TIMEOUT: f64 = 1e6;

/// Where the text comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextSource {
    /// The bytes of a file.
    File(PathBuf),
    /// A synthetic text.
    Mock,
}

/// The optimizer's constants.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamOptions {
    /// Decay of the first moment.
    pub beta1: f64,
    /// Decay of the second moment.
    pub beta2: f64,
    /// Added to the root of the second moment.
    pub eps: f64,
    /// Decay of matrices.
    pub weight_decay: f64,
}

/// A step to be written down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceRequest {
    /// Where to.
    pub path: PathBuf,
    /// The step, 0-based.
    pub iteration: u32,
}

/// A run that can be started. [`TrainConfig::new`] is the only way to one.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainConfig {
    pub(crate) place: Place,
    pub(crate) plan: Plan,
    /// Which rank is where.
    pub(crate) mesh: Mesh,
    pub(crate) layers: LayerPartition,
    pub(crate) model: GptConfig,
    pub(crate) micro_batch_size: usize,
    /// Of the training microbatches; validation has the model's.
    pub(crate) seq_lengths: SeqLengths,
    pub(crate) source: TextSource,
    pub(crate) train_iters: u32,
    pub(crate) eval_interval: Option<u32>,
    pub(crate) eval_iters: u32,
    pub(crate) seed: u64,
    pub(crate) lr: LrSchedule,
    pub(crate) adam: AdamOptions,
    pub(crate) clip: Option<f64>,
    pub(crate) threads: usize,
    pub(crate) timeout: Duration,
    pub(crate) heartbeat: Duration,
    /// What computes, and in which numbers.
    pub(crate) compute: Compute,
    /// What messages go through.
    pub(crate) carrier: Carrier,
    /// Which GPU is this process's, where one is used.
    #[cfg(feature = "nccl")]
    pub(crate) gpu: Option<GpuChoice>,
    pub(crate) metrics: Option<PathBuf>,
    pub(crate) trace: Option<TraceRequest>,
    pub(crate) flight_dir: Option<PathBuf>,
    pub(crate) fault: Option<Fault>,
    pub(crate) dry_run: bool,
}

impl TrainConfig {
    /// Checks what was typed, for a process that no launcher has started.
    ///
    /// # Errors
    /// [`Invalid`], for the first thing that makes no run.
    pub fn new(args: &Args) -> Result<Self, Invalid> {
        Self::within(args, &Environment::default())
    }

    /// Checks what was typed, for a process with these variables, from which it may have its place.
    ///
    /// # Errors
    /// As [`TrainConfig::new`].
    pub fn within(args: &Args, env: &Environment) -> Result<Self, Invalid> {
        // Once: whatever else is changed to find what works, the file stays what it is.
        let file = read_file(args)?;
        let check = |args: &Args, share_of_memory| Self::check(args, env, file.as_ref(), share_of_memory);
        check(args, footprint::ALL)
            .map_err(|refusal| refusal.advise(args, |args| check(args, footprint::ADVISED).is_ok()))
    }

    fn check(
        args: &Args,
        env: &Environment,
        file: Option<&Arc<FilePlan>>,
        share_of_memory: f64,
    ) -> Result<Self, Refusal> {
        check_sizes(args)?;
        check_not_there_yet(args)?;
        let plan = Plan::new(args, file)?;
        let n_ranks = plan.n_ranks();
        let model = model(args)?;
        let mesh = Mesh::new(args.tp, args.dp, n_ranks)?.with_placement(plan.placement())?;
        let layers = crate::layers::partition(args, &model, plan.placement())?;
        let place = Place::new(args, env, &plan)?;
        let seq_lengths = SeqLengths::new(args, plan.microbatches())?;
        let compute = Compute::new(&args.device)?;
        let carrier = Carrier::new(&args.device, compute, n_ranks)?;
        let threads = threads(args, place.local_size().unwrap_or(plan.n_ranks()))?;
        let config = Self {
            plan,
            mesh,
            layers,
            model,
            micro_batch_size: args.micro_batch_size as usize,
            seq_lengths,
            source: source(args)?,
            train_iters: args.train_iters,
            eval_interval: args.eval_interval,
            eval_iters: args.eval_iters,
            seed: args.seed,
            lr: lr(args)?,
            adam: adam(args)?,
            clip: clip(args)?,
            threads,
            timeout: seconds("--timeout", args.timeout, 60)?,
            heartbeat: seconds("--heartbeat", args.heartbeat, 10)?,
            #[cfg(feature = "nccl")]
            gpu: match compute.is_on_host() && matches!(carrier, Carrier::Host(_)) {
                true => None,
                false => Some(GpuChoice::new(args.device.device_id, env, &place)?),
            },
            compute,
            carrier,
            metrics: args.metrics.clone(),
            trace: trace(args)?,
            flight_dir: args.flight_dir.clone(),
            fault: fault(args, n_ranks)?,
            dry_run: args.dry_run,
            place,
        };
        footprint::check(config.sizes(), share_of_memory)?;
        Ok(config)
    }

    /// What decides how much the run needs.
    pub(crate) fn sizes(&self) -> Sizes<'_> {
        let Self { plan, layers, model, micro_batch_size, seq_lengths, compute, .. } = self;
        let (micro_batch_size, longest) = (*micro_batch_size, seq_lengths.longest());
        Sizes { plan, layers, model, micro_batch_size, longest, compute: *compute }
    }

    /// Sequences of one step.
    pub fn global_batch_size(&self) -> usize {
        self.micro_batch_size * self.plan.microbatches() as usize
    }

    /// Tokens of one step.
    pub fn tokens_per_step(&self) -> usize {
        let per_sequence = (0..self.plan.microbatches() as usize).map(|microbatch| self.seq_lengths.of(microbatch));
        self.micro_batch_size * per_sequence.sum::<usize>()
    }

    /// What a step computes, where and in which order.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Where this process stands.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// What computes, and in which numbers.
    pub fn compute(&self) -> Compute {
        self.compute
    }

    /// Whether everything is to be checked and nothing started.
    pub fn dry_run(&self) -> bool {
        self.dry_run
    }

    /// Threads for the kernels of this rank.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Whether a GPU is needed, for tensors or for messages.
    pub(crate) fn needs_gpu(&self) -> bool {
        #[cfg(feature = "nccl")]
        return self.gpu.is_some();
        #[cfg(not(feature = "nccl"))]
        false
    }

    /// Everything that decides what is trained and that all ranks must have alike, as text, and nothing about this process.
    pub(crate) fn what_is_trained(&self) -> String {
        let model = (self.plan.identity(), &self.layers, &self.model, self.micro_batch_size, &self.seq_lengths);
        let steps = (self.train_iters, self.eval_interval, self.eval_iters, self.seed, self.lr, self.adam, self.clip);
        format!("{model:?} {steps:?} {:?} {}", self.compute, self.carrier.terms())
    }

    /// Whether `iteration`, 0-based, is followed by a validation before the last one.
    pub(crate) fn validates_after(&self, iteration: u32) -> bool {
        let done = iteration + 1;
        done < self.train_iters && self.eval_interval.is_some_and(|interval| done.is_multiple_of(interval))
    }
}

fn check_sizes(args: &Args) -> Result<(), Refusal> {
    let sizes = [
        ("--micro-batch-size", Some(args.micro_batch_size)),
        ("--global-batch-size", args.global_batch_size),
        ("--seq-length", Some(args.seq_length)),
        ("--hidden-size", Some(args.hidden_size)),
        ("--num-layers", Some(args.num_layers)),
        ("--num-heads", Some(args.num_heads)),
        ("--dp", Some(args.dp)),
        ("--tp", Some(args.tp)),
    ];
    let counts = [
        ("--train-iters", Some(args.train_iters)),
        ("--eval-interval", args.eval_interval),
        ("--eval-iters", Some(args.eval_iters)),
        ("--threads", args.threads),
        ("--world-size", args.world_size),
    ];
    for (flag, size) in sizes.into_iter().chain(counts) {
        if size == Some(0) {
            refuse!("{flag} is 0, but must be at least 1");
        }
    }
    for (flag, size) in sizes {
        if let Some(size) = size.filter(|&size| size > MAX_SIZE) {
            let rule = format!("{flag} {size} is too large, at most {MAX_SIZE}");
            return Err(Refusal::new(rule, [Try::To(flag, MAX_SIZE.into())]));
        }
    }
    Ok(())
}

fn check_not_there_yet(args: &Args) -> Result<(), Invalid> {
    for (flag, size) in [("--dp", args.dp), ("--tp", args.tp)] {
        if size != 1 {
            refuse!("{flag} {size} does not work yet, only pipelines do; use {flag} 1");
        }
    }
    Ok(())
}

fn model(args: &Args) -> Result<GptConfig, Refusal> {
    let model = GptConfig::new(GptOptions {
        vocab: VOCAB,
        seq_len: args.seq_length as usize,
        hidden: args.hidden_size as usize,
        n_layers: args.num_layers as usize,
        n_heads: args.num_heads as usize,
        tied: !args.untie,
        ..GptOptions::default()
    });
    model.map_err(|error| match error {
        pp_model::ConfigError::HeadsDoNotDivide { hidden, n_heads, nearest_hidden, nearest_heads } => Refusal::new(
            format!("--hidden-size {hidden} is not divisible by --num-heads {n_heads}"),
            [Try::To("--hidden-size", nearest_hidden as u64), Try::To("--num-heads", nearest_heads as u64)],
        ),
        error => error.into(),
    })
}

fn source(args: &Args) -> Result<TextSource, Invalid> {
    match (&args.data, args.mock_data) {
        (Some(path), false) => Ok(TextSource::File(path.clone())),
        (None, true) => Ok(TextSource::Mock),
        (Some(path), true) => {
            refuse!("--data {} and --mock-data are both given; leave one of them out", path.display())
        }
        (None, false) => refuse!("no text to train on; give --data FILE, or --mock-data for a synthetic one"),
    }
}

fn lr(args: &Args) -> Result<LrSchedule, Invalid> {
    let (peak, total) = (args.lr, args.train_iters);
    if !(peak.is_finite() && peak >= 0.0) {
        refuse!("--lr {peak} is no learning rate; it must be a finite number of at least 0, such as 6e-3");
    }
    let min = args.min_lr.unwrap_or(peak / 10.0);
    if !(min.is_finite() && (0.0..=peak).contains(&min)) {
        refuse!("--min-lr {min} is not within 0 and --lr {peak}; nearest that works: {}", min.max(0.0).min(peak));
    }
    let warmup = args.lr_warmup_iters.unwrap_or(total / 10);
    if warmup > total {
        refuse!("--lr-warmup-iters {warmup} is more than --train-iters {total}; nearest that works: {total}");
    }
    Ok(LrSchedule { peak, min, warmup, total })
}

fn adam(args: &Args) -> Result<AdamOptions, Invalid> {
    for (flag, beta, usual) in [("--adam-beta1", args.adam_beta1, 0.9), ("--adam-beta2", args.adam_beta2, 0.95)] {
        if !(0.0..1.0).contains(&beta) {
            refuse!("{flag} {beta} is not at least 0 and below 1; usual is {usual}");
        }
    }
    let (eps, weight_decay) = (args.adam_eps, args.weight_decay);
    if !(eps.is_finite() && eps > 0.0) {
        refuse!("--adam-eps {eps} is not a positive number; usual is 1e-8");
    }
    if !(weight_decay.is_finite() && weight_decay >= 0.0) {
        refuse!("--weight-decay {weight_decay} is not a finite number of at least 0; usual is 0.1");
    }
    Ok(AdamOptions { beta1: args.adam_beta1, beta2: args.adam_beta2, eps, weight_decay })
}

fn clip(args: &Args) -> Result<Option<f64>, Invalid> {
    let clip = args.clip_grad;
    if !(clip.is_finite() && clip >= 0.0) {
        refuse!("--clip-grad {clip} is not a finite number of at least 0; usual is 1, and 0 does not clip");
    }
    Ok((clip > 0.0).then_some(clip))
}

/// Threads of this rank beside those of its machine; where nobody says how many there are, all ranks are taken to share it.
fn threads(args: &Args, n_ranks: u32) -> Result<usize, Invalid> {
    if let Some(threads) = args.threads.filter(|&threads| threads > MAX_THREADS) {
        refuse!("--threads {threads} is too many, at most {MAX_THREADS}");
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Ok(args.threads.map_or((cores / n_ranks as usize).max(1), |threads| threads as usize))
}

fn trace(args: &Args) -> Result<Option<TraceRequest>, Invalid> {
    let total = args.train_iters;
    match (&args.trace, args.trace_iteration) {
        (None, None) => Ok(None),
        (None, Some(iteration)) => {
            refuse!(
                "--trace-iteration {iteration} is given without --trace FILE, so nothing is written; give both or none"
            )
        }
        (Some(_), Some(iteration)) if iteration == 0 || iteration > total => refuse!(
            "--trace-iteration {iteration} is not within 1 and --train-iters {total}; nearest that works: {}",
            iteration.clamp(1, total)
        ),
        (Some(path), iteration) => {
            Ok(Some(TraceRequest { path: path.clone(), iteration: iteration.unwrap_or(total) - 1 }))
        }
    }
}

/// The failure to rehearse, for runs of so many ranks.
fn fault(args: &Args, n_ranks: u32) -> Result<Option<Fault>, Invalid> {
    let Some(text) = &args.inject_fault else { return Ok(None) };
    match text.parse::<Fault>().and_then(|fault| fault.among(n_ranks)) {
        Ok(fault) => Ok(Some(fault)),
        Err(error) => refuse!("--inject-fault {text}: {error}"),
    }
}

fn seconds(flag: &str, seconds: f64, usual: u32) -> Result<Duration, Invalid> {
    if !(seconds > 0.0 && seconds <= MAX_TIMEOUT) {
        refuse!("{flag} {seconds} is not a positive number of seconds of at most {MAX_TIMEOUT}; usual is {usual}");
    }
    Ok(Duration::from_secs_f64(seconds))
}
