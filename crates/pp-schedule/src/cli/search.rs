//! `search`: a zero-bubble order for given costs within a memory limit.

use std::io::Write;
use std::str::FromStr;

use clap::Args;

use super::CommandError;
use super::costs::{CostArgs, Priced};
use super::decimal::Decimal;
use super::figures;
use super::output::{DEPENDENCIES_ONLY, OutputArgs, Subject, Texts};
use super::source::Source;
use crate::format::any;
use crate::format::document::Document;
use crate::format::grid::Grid;
use crate::format::text::{self, Style};
use crate::ids::Stage;
use crate::order::{Extent, Order};
use crate::placement::Placement;
use crate::simulate::{Link, Report, StageCosts, Timeline};
use crate::synth::{Problem, Solution, limits, search};

/// Arguments of `search`.
#[derive(Clone, Debug, Args)]
#[command(allow_negative_numbers = true)]
#[command(after_help = "\
Examples:
  pp-schedule search --pp 4 --vp 2 -m 12 --forward 10 --backward-input 12 --backward-weight 8 --latency 1
  pp-schedule search --pp 8 -m 32 --memory zb-h1 --format csv --output order.csv
  cargo xtask launch --schedule-csv order.csv")]
pub struct SearchArgs {
    /// Pipeline ranks
    #[arg(long, visible_alias = "pipeline-model-parallel-size")]
    pp: u32,
    /// Model chunks per rank: 1, or 2 dealt in a V
    #[arg(long, visible_alias = "num-virtual-stages-per-pipeline-rank", default_value_t = 1)]
    vp: u32,
    /// Microbatches per step
    #[arg(long, short = 'm', default_value_t = 8)]
    microbatches: u32,
    /// The most that a rank may hold, in activations of one chunk, which count half once their backward for the input is
    /// done; or the limit of zb-h1, zb-2p (--vp 1), zb-v, v-half or v-min (--vp 2) [default: no limit]
    #[arg(long, value_name = "N|NAME")]
    memory: Option<Memory>,
    #[command(flatten)]
    costs: CostArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// A memory limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Memory {
    /// That of a named schedule, by its place in [`NAMED`].
    Of(usize),
    /// So many half-activations.
    Halves(u64),
}

/// The limit of a schedule: its name, for how many chunks, and half-activations by ranks.
struct Named {
    name: &'static str,
    n_chunks: u32,
    limit: fn(u32) -> u64,
}

const NAMED: [Named; 5] = [
    Named { name: "v-half", n_chunks: 2, limit: limits::v_half },
    Named { name: "v-min", n_chunks: 2, limit: limits::v_min },
    Named { name: "zb-2p", n_chunks: 1, limit: limits::zb_2p },
    Named { name: "zb-h1", n_chunks: 1, limit: limits::zb_h1 },
    Named { name: "zb-v", n_chunks: 2, limit: limits::zb_v },
];

/// A text that is no limit.
#[derive(Clone, Debug, thiserror::Error)]
#[error(
    "`{text}` is no limit: give activations of one chunk, in halves at most, such as 8 or 7.5, or the name of one: {}",
    NAMED.iter().map(|named| named.name).collect::<Vec<_>>().join(", ")
)]
struct NoLimit {
    text: String,
}

impl FromStr for Memory {
    type Err = NoLimit;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(named) = NAMED.iter().position(|named| named.name.eq_ignore_ascii_case(text)) {
            return Ok(Self::Of(named));
        }
        let tenths = text.parse::<Decimal>().ok().and_then(|number| number.scaled(1));
        let halves = tenths.filter(|tenths| tenths.is_multiple_of(5)).map(|tenths| tenths / 5);
        halves.map(Self::Halves).ok_or_else(|| NoLimit { text: text.chars().take(40).collect() })
    }
}

pub(super) fn run(args: &SearchArgs, out: &mut dyn Write) -> Result<(), CommandError> {
    let size = Problem::unit(args.pp, args.vp, args.microbatches);
    size.check()?;
    let placement = size.placement();
    let extent = Extent { placement, microbatches: args.microbatches, forward_only: false };
    let priced = args.costs.price(extent)?;
    let (stage, link) = even(&priced, placement)?;
    let problem = Problem {
        forward: stage.forward,
        backward_input: stage.backward_input,
        backward_weight: stage.backward_weight,
        latency: link.delay(),
        memory: args.limit()?,
        ..size
    };
    let solution = search(&problem)?;
    let order = Order::new(extent, solution.rows.clone())?;
    let timeline = Timeline::of_order(&order, &priced.costs)?;
    let report = Report::new(&timeline, |stage| priced.bytes_of(stage));
    let document = Document { name: Some("searched".to_owned()), grid: Grid::from(&order) };
    let source = Source::Given { name: "a searched order".to_owned(), document, order, program: None };
    // What is put out has been proved, as everything is that runs.
    source.program(None)?;
    let clock = DEPENDENCIES_ONLY.to_owned();
    let subject = Subject { source: &source, priced: &priced, timeline: &timeline, report: &report, clock };
    let style = Style { width: args.output.width(), colour: args.output.may_colour(), scale: Some(&priced.scale) };
    let texts = Texts {
        text: &|subject| {
            format!(
                "{}\n{}{}",
                text::draw_with(&timeline, style),
                figures::simulated(subject),
                found(&solution, subject)
            )
        },
        json: &|_| any::write(&source.document(), any::Format::Json),
        csv: &|_| any::write(&source.document(), any::Format::Csv),
    };
    args.output.write(&subject, &texts, out)
}

impl SearchArgs {
    fn limit(&self) -> Result<Option<u64>, CommandError> {
        let smallest = Problem::unit(self.pp, self.vp, self.microbatches).smallest_memory();
        match self.memory {
            None => Ok(None),
            Some(Memory::Halves(halves)) if halves < smallest => Err(CommandError::Request(format!(
                "--memory {} is too small for any order: a rank has to hold a microbatch of all its chunks, so the smallest \
                 that works is {}",
                activations(halves),
                activations(smallest)
            ))),
            Some(Memory::Halves(halves)) => Ok(Some(halves)),
            Some(Memory::Of(named)) => {
                let Named { name, n_chunks, limit } = NAMED[named];
                if n_chunks != self.vp {
                    let vp = self.vp;
                    let text = format!("--memory {name} is for --vp {n_chunks}, but --vp is {vp}; use --vp {n_chunks}");
                    return Err(CommandError::Request(text));
                }
                Ok(Some(limit(self.pp)))
            }
        }
    }
}

/// The costs of every stage and message, which a search takes to be the same.
fn even(priced: &Priced, placement: Placement) -> Result<(StageCosts, Link), CommandError> {
    let stages = (0..placement.n_stages()).map(Stage);
    let first = priced.costs.stage(Stage(0));
    let link = if placement.n_stages() > 1 { priced.costs.link_to(Stage(1)) } else { Link::default() };
    let same = stages.clone().all(|stage| priced.costs.stage(stage) == first);
    if !same || !stages.skip(1).all(|stage| priced.costs.link_to(stage) == link) {
        return Err(CommandError::Costs(
            "a search takes the same costs on every stage and boundary; give one value for each".to_owned(),
        ));
    }
    Ok((first, link))
}

/// Half-activations in activations.
fn activations(halves: u64) -> f64 {
    halves as f64 / 2.0
}

/// How good it is.
fn found(solution: &Solution, subject: &Subject<'_>) -> String {
    let scale = &subject.priced.scale;
    let bound = figures::time(solution.lower_bound, scale);
    let gap = solution.makespan - solution.lower_bound;
    let verdict = if gap == 0 {
        format!("no order within the limit is shorter: it ends at the lower bound, {bound} {}", scale.unit)
    } else {
        let share = 100.0 * gap as f64 / solution.lower_bound as f64;
        format!("at most {share:.2} % longer than the shortest: the lower bound is {bound} {}", scale.unit)
    };
    let most = activations(solution.peak.iter().max().copied().unwrap_or(0));
    format!(
        "\n{verdict}\nholds at most {most} activations of a chunk, half-done ones counted half; {} policies and {} moves tried\n",
        solution.tried.plays, solution.tried.moves
    )
}
