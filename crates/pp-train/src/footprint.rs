//! What a run needs of the machine, from its sizes alone: messages that can travel, memory that there is.

use pp_comm::MAX_MESSAGE_BYTES;
use pp_model::{ChunkSpec, GptConfig};
use pp_schedule::{LayerPartition, Rank, Stage};

use crate::device::{Compute, NumberType};
use crate::nearest::{Refusal, Try};
use crate::plan::Plan;

const FLOAT: f64 = size_of::<f32>() as f64;
/// A token of a batch and its label.
const PER_TOKEN: f64 = (size_of::<u32>() + size_of::<i64>()) as f64;
/// What is taken for the machine's memory where the system does not tell it: 1 TiB.
const ASSUMED_MEMORY: f64 = (1_u64 << 40) as f64;
/// The share of memory beyond which a run is refused, as it cannot fit.
pub(crate) const ALL: f64 = 1.0;
/// The share that is advised: kernels and the system need some as well.
pub(crate) const ADVISED: f64 = 0.75;
/// What is advised where changing one size alone does not do.
const OTHERWISE: &str = "; use smaller ones";
const GIB: f64 = (1 << 30) as f64;

/// What decides how much a run needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) layers: &'a LayerPartition,
    pub(crate) model: &'a GptConfig,
    pub(crate) micro_batch_size: usize,
    /// The longest sequence trained on; what is validated on has all positions.
    pub(crate) longest: usize,
    pub(crate) compute: Compute,
}

/// Bytes that ranks cannot do without; kernels need some more for a while.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Footprint {
    weights: f64,
    activations: f64,
    batch: f64,
}

impl Footprint {
    /// Of all ranks, which share one machine: of its own memory, not of its GPUs'.
    fn of(sizes: Sizes<'_>) -> Self {
        let mut all = Self::default();
        for (rank, peak) in (0..).map(Rank).zip(sizes.plan.peaks_saved()) {
            let mine = Self::of_rank(sizes, rank, peak);
            if sizes.compute.is_on_host() {
                all.weights += mine.weights;
                all.activations += mine.activations;
            }
            all.batch += mine.batch;
        }
        all
    }

    /// Of one rank, which keeps `peak` activations at once, wherever its tensors are.
    fn of_rank(sizes: Sizes<'_>, rank: Rank, peak: u32) -> Self {
        let placement = sizes.plan.placement();
        let saved: f64 = placement.stages_of(rank).map(|stage| saved_bytes_of(sizes, stage)).sum();
        let chunks = placement.stages_of(rank).map(|stage| ChunkSpec::new(sizes.layers, stage));
        let n_parameters = chunks.map(|chunk| n_parameters(sizes.model, &chunk)).sum::<f64>();
        Self {
            weights: per_parameter(sizes.compute.dtype) * n_parameters,
            activations: f64::from(peak) * saved / f64::from(placement.n_chunks()),
            batch: PER_TOKEN * tokens(sizes) * f64::from(sizes.plan.microbatches()),
        }
    }

    fn total(self) -> f64 {
        self.weights + self.activations + self.batch
    }
}

/// What a rank needs of a GPU, in words, where that is more than the GPU has.
#[cfg(any(feature = "cuda", test))]
pub(crate) fn beyond_gpu(sizes: Sizes<'_>, rank: Rank, n_bytes: f64) -> Option<String> {
    let peak = sizes.plan.peaks_saved().get(rank.idx()).copied()?;
    let needed = Footprint::of_rank(sizes, rank, peak);
    (needed.total() > n_bytes).then(|| {
        format!(
            "rank {rank} needs about {:.1} GiB of its GPU (weights with gradient and moments {:.1}, activations {:.1}, batches \
             {:.1}), which has {:.1}; use more ranks, fewer layers or smaller microbatches",
            needed.total() / GIB,
            needed.weights / GIB,
            needed.activations / GIB,
            needed.batch / GIB,
            n_bytes / GIB
        )
    })
}

/// Refuses sizes that would fail only once the ranks have started. A run may take this share of the memory there is.
pub(crate) fn check(sizes: Sizes<'_>, share: f64) -> Result<(), Refusal> {
    check_message(sizes)?;
    check_memory(sizes, share * memory().unwrap_or(ASSUMED_MEMORY))
}

fn check_message(sizes: Sizes<'_>) -> Result<(), Refusal> {
    let (model, micro) = (sizes.model, sizes.micro_batch_size);
    let n_bytes = tokens(sizes) * model.hidden() as f64 * sizes.compute.dtype.n_bytes() as f64;
    if n_bytes <= MAX_MESSAGE_BYTES as f64 {
        return Ok(());
    }
    let rule = format!(
        "--micro-batch-size {micro} x --seq-length {} x --hidden-size {} is a message of {n_bytes} bytes between stages, at \
         most {MAX_MESSAGE_BYTES}",
        model.seq_len(),
        model.hidden()
    );
    Err(Refusal::new(rule, [smaller_batch(), shorter(), narrower(model)]).otherwise(OTHERWISE))
}

fn check_memory(sizes: Sizes<'_>, memory: f64) -> Result<(), Refusal> {
    let needed = Footprint::of(sizes);
    if needed.total() <= memory {
        return Ok(());
    }
    let (model, micro) = (sizes.model, sizes.micro_batch_size);
    let Footprint { weights, activations, batch } = needed;
    let shorter_ones = match sizes.longest {
        longest if longest < model.seq_len() => format!(" (at most {longest} trained on)"),
        _ => String::new(),
    };
    let rule = format!(
        "--hidden-size {} x --num-layers {}, --micro-batch-size {micro} x --seq-length {}{shorter_ones} and {} microbatches need about \
         {:.1} GiB (weights with gradient and moments {:.1}, activations {:.1}, batches {:.1}), but this machine has {:.1}",
        model.hidden(),
        model.n_layers(),
        model.seq_len(),
        sizes.plan.microbatches(),
        needed.total() / GIB,
        weights / GIB,
        activations / GIB,
        batch / GIB,
        memory / GIB
    );
    let shallower = Try::Below("--num-layers", sizes.plan.placement().n_stages());
    let fewer = Try::Below("--microbatches", 1);
    // First what the most depends on.
    let tries = if weights >= activations.max(batch) {
        [narrower(model), shallower, smaller_batch(), shorter(), fewer]
    } else if activations >= batch {
        [smaller_batch(), shorter(), narrower(model), shallower, fewer]
    } else {
        [fewer, smaller_batch(), shorter(), narrower(model), shallower]
    };
    Err(Refusal::new(rule, tries).otherwise(OTHERWISE))
}

const fn smaller_batch() -> Try {
    Try::Below("--micro-batch-size", 1)
}

const fn shorter() -> Try {
    Try::Below("--seq-length", 1)
}

fn narrower(model: &GptConfig) -> Try {
    Try::Below("--hidden-size", model.n_heads() as u32)
}

/// Memory of this machine, or of the container that the process is in, as Linux tells it.
fn memory() -> Option<f64> {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let text = read("/proc/meminfo")?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: f64 = line.split_whitespace().next()?.parse().ok()?;
    let container = read("/sys/fs/cgroup/memory.max").and_then(|text| text.trim().parse().ok());
    Some(container.unwrap_or(f64::INFINITY).min(kib * 1024.0))
}

/// Bytes of a parameter: with its gradient and the optimizer's two moments, which are `f32`, and a master in `f32` where the
/// layers' own is not.
const fn per_parameter(dtype: NumberType) -> f64 {
    match dtype {
        NumberType::F32 => 4.0 * FLOAT,
        NumberType::Bf16 => 4.0 * FLOAT + dtype.n_bytes() as f64,
    }
}

/// Tokens of a microbatch whose sequences have all positions, as those of validation.
fn tokens(sizes: Sizes<'_>) -> f64 {
    sizes.micro_batch_size as f64 * sizes.model.seq_len() as f64
}

/// Both copies of a tied weight count, as both are held.
fn n_parameters(model: &GptConfig, chunk: &ChunkSpec) -> f64 {
    let (hidden, vocab, seq_len) = (model.hidden() as f64, model.vocab() as f64, model.seq_len() as f64);
    let block = 12.0 * hidden * hidden + 13.0 * hidden;
    let embedding = if chunk.pre_process { (vocab + seq_len) * hidden } else { 0.0 };
    let head = if chunk.post_process { (vocab + 2.0) * hidden } else { 0.0 };
    embedding + block * chunk.layers.len() as f64 + head
}

/// An estimate of what the forward of one microbatch keeps for its backward, on the largest chunk of a rank; where lengths
/// differ, of the longest.
pub(crate) fn saved_bytes(sizes: Sizes<'_>, rank: Rank) -> f64 {
    let stages = sizes.plan.placement().stages_of(rank);
    stages.map(|stage| saved_bytes_of(sizes, stage)).fold(0.0, f64::max)
}

/// The same on one stage: 16 tensors of the hidden size per layer, its attention's probabilities, and on the last stage the
/// gradient of the logits.
fn saved_bytes_of(sizes: Sizes<'_>, stage: Stage) -> f64 {
    let (model, chunk) = (sizes.model, ChunkSpec::new(sizes.layers, stage));
    let (hidden, vocab) = (model.hidden() as f64, model.vocab() as f64);
    let (n_tokens, seq_len) = (sizes.micro_batch_size as f64 * sizes.longest as f64, sizes.longest as f64);
    let per_layer = 16.0 * hidden + model.n_heads() as f64 * seq_len;
    let head = if chunk.post_process { 2.0 * hidden + vocab } else { 0.0 };
    n_tokens * (per_layer * chunk.layers.len() as f64 + head) * sizes.compute.dtype.n_bytes() as f64
}

#[cfg(test)]
mod tests {
    use pp_model::catalog;

    use super::*;
    use crate::args::Args;
    use crate::config::TrainConfig;

    fn config(line: &str) -> TrainConfig {
        let words = "--mock-data --dry-run".split_whitespace().chain(line.split_whitespace());
        TrainConfig::new(&Args::from_words(words).unwrap()).unwrap()
    }

    #[test]
    fn parameters_are_those_of_the_catalog() {
        for line in ["--untie", "--pp 2 --vp 2", "--pp 4 --layer-split 0,4,4,0 --untie"] {
            let config = config(line);
            let chunks = (0..config.plan.placement().n_stages()).map(|s| ChunkSpec::new(&config.layers, Stage(s)));
            let counted: f64 = chunks.map(|chunk| n_parameters(&config.model, &chunk)).sum();
            let listed: usize = catalog::catalog(&config.model).iter().map(catalog::ParamSpec::len).sum();
            assert_eq!(counted, listed as f64, "{line}");
        }
    }

    #[test]
    fn brain_floats_halve_what_travels_and_keep_a_master() {
        let [single, brain] = ["", "--bf16"].map(|dtype| config(&format!("--pp 2 {dtype}")));
        let footprint = |config: &TrainConfig| Footprint::of(config.sizes());
        let n_parameters = catalog::n_parameters(&single.model) as f64 + 256.0 * 64.0;
        assert_eq!(footprint(&single).weights, 16.0 * n_parameters);
        assert_eq!(footprint(&brain).weights, 18.0 * n_parameters);
        assert_eq!(footprint(&brain).activations, footprint(&single).activations / 2.0);
        assert_eq!(footprint(&brain).batch, footprint(&single).batch);
        // A message that is too long by half goes.
        let message = "--micro-batch-size 1 --hidden-size 20480 --seq-length 65536";
        let args = |dtype: &str| Args::from_words(format!("--mock-data {message} {dtype}").split_whitespace()).unwrap();
        let check = |dtype: &str| TrainConfig::new(&args(dtype)).map_err(|error| error.to_string());
        assert!(check("--dtype f32").unwrap_err().contains("is a message of 5368709120 bytes"));
        assert!(!check("--dtype bf16").is_err_and(|error| error.contains("is a message of")));
    }

    #[test]
    fn a_rank_that_needs_more_than_its_gpu_has_says_what() {
        let config = config("--pp 2 --layer-split 2,6");
        let needs = |rank, n_bytes| beyond_gpu(config.sizes(), Rank(rank), n_bytes);
        assert_eq!((needs(0, GIB), needs(1, GIB)), (None, None));
        let told = needs(1, 1e6).unwrap();
        assert!(told.contains("rank 1 needs about") && told.contains("which has 0.0"), "{told}");
        let total = Footprint::of(config.sizes()).total();
        let of =
            |rank| Footprint::of_rank(config.sizes(), Rank(rank), config.plan.peaks_saved()[rank as usize]).total();
        assert_eq!(of(0) + of(1), total);
        assert!(needs(1, of(1)).is_none() && needs(1, of(1) - 1.0).is_some());
    }

    #[test]
    fn what_most_depends_on_comes_first() {
        for (line, first) in [
            ("--num-layers 4 --hidden-size 256 --micro-batch-size 1 --microbatches 1", "--hidden-size"),
            ("--micro-batch-size 64 --num-layers 2", "--micro-batch-size"),
            (
                "--hidden-size 8 --num-layers 1 --micro-batch-size 1 --seq-length 8 --microbatches 1000000",
                "--microbatches",
            ),
        ] {
            let args = Args::from_words(["--mock-data"].into_iter().chain(line.split_whitespace())).unwrap();
            let config = config(line);
            let memory = Footprint::of(config.sizes()).total() * 0.9;
            let works =
                |args: &Args| TrainConfig::new(args).is_ok_and(|config| check_memory(config.sizes(), memory).is_ok());
            let message = check_memory(config.sizes(), memory).unwrap_err().advise(&args, works).to_string();
            assert!(message.contains(&format!("works: {first} ")), "{message}");
            assert!(check_memory(config.sizes(), memory * 1.2).is_ok());
        }
    }
}
