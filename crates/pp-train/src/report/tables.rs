//! What is printed before step 0: the configuration, the stages, the bubble, the memory, the schedule's picture.

use std::fmt::Write as _;

use pp_model::{ChunkSpec, catalog};
use pp_schedule::figures::{bubble_formula, ideal_bubble};
use pp_schedule::format::text;
use pp_schedule::simulate::{Costs, Timeline};
use pp_schedule::{Rank, Stage};

use crate::config::{TextSource, TrainConfig};
use crate::data::Text;
use crate::footprint::saved_bytes;
use crate::plan::Plan;

/// Width of a drawing, in characters.
const DRAW_WIDTH: usize = 120;
/// Panels of that width beyond which a schedule is not drawn.
const MAX_PANELS: u64 = 3;
const MIB: f64 = (1 << 20) as f64;

/// Everything there is to say before step 0.
pub(crate) fn before(config: &TrainConfig, text: &Text) -> String {
    let sections = [
        Some(settings(config, text)),
        Some(mesh(config)),
        Some(stages(config)),
        Some(figures(config)),
        drawing(config),
    ];
    sections.into_iter().flatten().collect::<Vec<_>>().join("\n")
}

fn settings(config: &TrainConfig, text: &Text) -> String {
    let mut out = "configuration\n".to_owned();
    for (name, value) in what_rows(config, text).into_iter().chain(how_rows(config, text)) {
        let _ = writeln!(out, "  {name:<14} {value}");
    }
    out
}

/// What is trained, and how it is cut.
fn what_rows(config: &TrainConfig, text: &Text) -> Vec<(&'static str, String)> {
    let (model, m) = (&config.model, config.plan.microbatches());
    let model = format!(
        "hidden {}, {} layers, {} heads, sequence {}, vocabulary {}, {} head, {} parameters",
        model.hidden(),
        model.n_layers(),
        model.n_heads(),
        model.seq_len(),
        model.vocab(),
        if model.tied() { "tied" } else { "untied" },
        catalog::n_parameters(model)
    );
    let (micro, global, tokens) = (config.micro_batch_size, config.global_batch_size(), config.tokens_per_step());
    let source = match &config.source {
        TextSource::File(path) => path.display().to_string(),
        TextSource::Mock => "synthetic".to_owned(),
    };
    let lengths =
        if config.seq_lengths.vary() { format!(", {} tokens long in turn", config.seq_lengths) } else { String::new() };
    let (training, validation) = (text.training().len(), text.validation().len());
    vec![
        ("schedule", config.plan.title()),
        ("model", model),
        ("batch", format!("{m} microbatches x {micro} = {global} sequences{lengths}, {tokens} tokens a step")),
        ("data", format!("{source}: {training} bytes for training, {validation} for validation")),
    ]
}

/// How it is trained.
fn how_rows(config: &TrainConfig, text: &Text) -> Vec<(&'static str, String)> {
    let (lr, adam) = (config.lr, config.adam);
    let often =
        config.eval_interval.map_or_else(|| "at the end".to_owned(), |every| format!("every {every} and at the end"));
    let clip = config.clip.map_or_else(|| "off".to_owned(), |clip| format!("at {clip}"));
    let optimizer = format!(
        "AdamW, betas {} and {}, epsilon {:e}, weight decay {}, clipping {clip}",
        adam.beta1, adam.beta2, adam.eps, adam.weight_decay
    );
    let n_ranks = config.plan.n_ranks();
    let world = format!("{n_ranks} process{}", if n_ranks == 1 { "" } else { "es" });
    let threads = format!("{} thread{}", config.threads, if config.threads == 1 { "" } else { "s" });
    let rows = vec![
        (
            "steps",
            format!("{}; validation {often}, {} steps each", config.train_iters, text.n_validation_steps(config)),
        ),
        ("learning rate", format!("{:.3e} after {} steps of warmup, down to {:.3e}", lr.peak, lr.warmup, lr.min)),
        ("optimizer", optimizer),
        ("seed", config.seed.to_string()),
        ("machine", format!("{}, {world}, {threads} per rank, waits of at most {:?}", config.compute, config.timeout)),
    ];
    rows.into_iter().chain(config.place.told()).collect()
}

/// Which rank is where.
fn mesh(config: &TrainConfig) -> String {
    let mesh = config.mesh.to_string();
    mesh.lines().fold("mesh\n".to_owned(), |text, line| format!("{text}  {line}\n"))
}

fn stages(config: &TrainConfig) -> String {
    let placement = config.plan.placement();
    let specs = catalog::catalog(&config.model);
    let mut out = "stage -> rank/chunk -> layers\n".to_owned();
    for stage in (0..placement.n_stages()).map(Stage) {
        let chunk = ChunkSpec::new(&config.layers, stage);
        let layers = match chunk.layers.len() {
            0 => "no layers".to_owned(),
            1 => format!("layer {}", chunk.layers.start),
            _ => format!("layers {}-{}", chunk.layers.start, chunk.layers.end - 1),
        };
        let parts: Vec<&str> =
            [(chunk.pre_process, "embedding"), (true, layers.as_str()), (chunk.post_process, "head + loss")]
                .into_iter()
                .filter_map(|(there, part)| there.then_some(part))
                .collect();
        let n_params: usize =
            specs.iter().filter(|spec| stage_holds(config, &chunk, spec.index)).map(catalog::ParamSpec::len).sum();
        let (rank, chunk) = (placement.rank_of(stage), placement.chunk_of(stage));
        let _ = writeln!(
            out,
            "  stage {stage} -> rank {rank}/chunk {chunk} -> {:<36} {n_params:>10} parameters",
            parts.join(", ")
        );
    }
    out
}

/// Whether the parameter of this canonical index is on a stage: embedding first, then the layers, then the head.
fn stage_holds(config: &TrainConfig, chunk: &ChunkSpec, index: usize) -> bool {
    let n_embedding = 2;
    let blocks_end = n_embedding + config.model.n_layers() * catalog::N_BLOCK_PARAMS;
    if index < n_embedding {
        chunk.pre_process
    } else if index >= blocks_end {
        chunk.post_process
    } else {
        chunk.layers.contains(&(((index - n_embedding) / catalog::N_BLOCK_PARAMS) as u32))
    }
}

fn figures(config: &TrainConfig) -> String {
    let mut out = closed_form(&config.plan);
    out.push_str("peak in-flight activations, saved until their backward is whole, in microbatches of one chunk\n");
    for (rank, peak) in (0..).map(Rank).zip(config.plan.peaks_saved()) {
        let mib = f64::from(peak) * saved_bytes(config.sizes(), rank) / MIB;
        let _ = writeln!(out, "  rank {rank}: {peak:>4}, about {mib:.1} MiB");
    }
    out
}

/// The bubble by a formula, where there is one.
fn closed_form(plan: &Plan) -> String {
    let Plan::Generated(schedule, _) = plan else {
        return String::new();
    };
    let sizes = format!("pp {}, vp {}, m {}", schedule.pp(), schedule.vp(), schedule.microbatches());
    match ideal_bubble(schedule) {
        Some(share) => {
            let formula = bubble_formula(schedule);
            format!("bubble, closed form: {formula} = {:.2}% ({sizes})\n", 100.0 * share)
        }
        None => format!("bubble: no closed form for this schedule at these sizes ({sizes})\n"),
    }
}

fn drawing(config: &TrainConfig) -> Option<String> {
    let timeline = Timeline::of_order(&config.plan.order(), &Costs::UNIT).ok()?;
    let cell = 4;
    let narrow = timeline.makespan() * cell <= MAX_PANELS * DRAW_WIDTH as u64;
    narrow.then(|| {
        let bubble = 100.0 * timeline.bubble();
        format!(
            "schedule, forward 1 and backward 2 units of time, idle {bubble:.2}%\n{}",
            text::draw(&timeline, DRAW_WIDTH)
        )
    })
}
