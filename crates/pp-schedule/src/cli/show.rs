//! `show`: the drawing of a schedule and its figures, at unit costs.

use std::fmt::Write as _;
use std::io::Write;

use clap::Args;

use super::costs::CostArgs;
use super::figures::{bubbles, time};
use super::output::{OutputArgs, Subject, Texts};
use super::source::{Source, SourceArgs};
use super::table::table;
use super::{CommandError, title};
use crate::config::{ScheduleConfig, ScheduleKind};
use crate::figures::counts;
use crate::format::any;
use crate::format::text::{self, Style};
use crate::ids::Rank;
use crate::lower::Policy;
use crate::simulate::{Report, Timeline};
use crate::verify::{VerifiedProgram, verify};
use crate::work::{Work, WorkKind};

/// Arguments of `show`.
#[derive(Clone, Debug, Args)]
#[command(allow_negative_numbers = true)]
#[command(after_help = "\
Examples:
  pp-schedule show --pp 4 --vp 2 --microbatches 8
  pp-schedule show --schedule zb-v --pp 8 -m 32 --format svg --output zb-v.svg
  pp-schedule show schedule.csv --format html --output schedule.html
  pp-schedule show --pp 4 --policy megatron-overlap --vp 2 --actions 0")]
pub struct ShowArgs {
    #[command(flatten)]
    source: SourceArgs,
    /// How transfers are ordered: lanes, megatron, megatron-even-odd, megatron-overlap, megatron-flush, megatron-ring or
    /// stagger [default: lanes]
    #[arg(long, value_name = "NAME", conflicts_with = "file")]
    policy: Option<Policy>,
    /// List the program of this rank, action by action, instead of the drawing
    #[arg(long, value_name = "RANK", conflicts_with_all = ["format", "width"])]
    actions: Option<u32>,
    #[command(flatten)]
    output: OutputArgs,
}

pub(super) fn run(args: &ShowArgs, out: &mut dyn Write) -> Result<(), CommandError> {
    let source = args.source.load()?;
    let verified = match (source.config(), args.policy) {
        (Some(config), Some(policy)) => verify(policy.lower(config)?)?,
        _ => source.program(None)?,
    };
    if let Some(rank) = args.actions {
        return args.output.put(&actions(&source, &verified, rank)?, out);
    }
    let priced = CostArgs::default().price(source.order().extent())?;
    let timeline = Timeline::of_order(source.order(), &priced.costs)?;
    let report = Report::new(&timeline, |stage| priced.bytes_of(stage));
    let (width, colour) = (args.output.width(), args.output.may_colour());
    let texts = Texts {
        text: &|subject| drawing(subject, Style { width, colour, scale: None }),
        json: &|_| any::write(&source.document(), any::Format::Json),
        csv: &|_| any::write(&source.document(), any::Format::Csv),
    };
    let clock = String::new();
    let subject = Subject { source: &source, priced: &priced, timeline: &timeline, report: &report, clock };
    args.output.write(&subject, &texts, out)
}

fn drawing(subject: &Subject<'_>, style: Style<'_>) -> String {
    let drawn = text::draw_with(subject.timeline, style);
    format!(
        "{}\n\n{drawn}\n{}\nproved: every computation once, slots, channels, no deadlock without buffers\n",
        subject.title(),
        figures(subject)
    )
}

fn figures(subject: &Subject<'_>) -> String {
    let (report, scale) = (subject.report, &subject.priced.scale);
    let n_chunks = subject.timeline.extent().placement.n_chunks();
    let column = if n_chunks == 1 { String::new() } else { format!(", a column is 1/{n_chunks}") };
    let makespan = time(report.makespan, scale);
    let mut text = format!("makespan  {makespan} units (1 = a rank's forward{column}; backward 2, messages free)\n");
    for (index, bubble) in bubbles(subject).into_iter().enumerate() {
        text += &format!("{:<9} {bubble}\n", if index == 0 { "bubble" } else { "" });
    }
    text += "\n";
    let mut head = vec!["rank", "warmup", "steady", "cooldown", "peak in flight"];
    let has_deferred = report.ranks.iter().any(|rank| rank.peak_deferred > 0);
    head.extend(has_deferred.then_some("and with W to come"));
    let mut rows = Vec::new();
    for (rank, works) in (0..).map(Rank).zip(subject.source.order().rows()) {
        let (warmup, steady, cooldown) = match subject.source.config() {
            Some(config) => phases_of(config, rank, works),
            None => phases(works),
        };
        let mut row = [rank.0, warmup, steady, cooldown].map(|count| count.to_string()).to_vec();
        let figures = &report.ranks[rank.idx()];
        row.push(figures.peak_in_flight.to_string());
        row.extend(has_deferred.then(|| figures.peak_saved.to_string()));
        rows.push(row);
    }
    text + &table(0, &head, &rows)
}

/// As Megatron counts them where Megatron has the schedule.
fn phases_of(config: &ScheduleConfig, rank: Rank, works: &[Work]) -> (u32, u32, u32) {
    match config.kind() {
        ScheduleKind::OneFOneB | ScheduleKind::Interleaved if !config.forward_only() => {
            let counts = counts(config, rank);
            (counts.warmup, counts.remaining, counts.warmup)
        }
        ScheduleKind::NoPipelining if !config.forward_only() => (0, config.microbatches() * config.vp(), 0),
        _ => phases(works),
    }
}

/// Computations before the first backward, from there to the last forward, and after it.
fn phases(works: &[Work]) -> (u32, u32, u32) {
    let is_forward = |work: &Work| work.kind == WorkKind::Forward;
    let warmup = works.iter().position(|work| !is_forward(work)).unwrap_or(works.len());
    let steady = works.iter().rposition(is_forward).map_or(0, |last| (last + 1).saturating_sub(warmup));
    let cooldown = works.len() - warmup - steady;
    (warmup as u32, steady as u32, cooldown as u32)
}

fn actions(source: &Source, verified: &VerifiedProgram, rank: u32) -> Result<String, CommandError> {
    let ranks = &verified.program().ranks;
    let program = ranks.get(rank as usize).ok_or(CommandError::NoSuchRank { rank, n_ranks: ranks.len() as u32 })?;
    let mut text = format!("{}\n", title::of(source));
    for (index, step) in program.steps().enumerate() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{index:>6}  {step}");
    }
    Ok(text)
}
