//! `show`: the drawing of a schedule and its figures.

use std::io::Write;

use clap::Args;

use super::policy::Policy;
use super::{CommandError, ScheduleArgs};
use crate::config::{ScheduleConfig, ScheduleKind};
use crate::figures::{bubble_formula, counts, ideal_bubble, peak_in_flight};
use crate::format::text;
use crate::groups::Groups;
use crate::ids::Rank;
use crate::order::Order;
use crate::simulate::{Costs, Timeline};
use crate::verify::{VerifiedProgram, verify};

/// The most units of time, over all ranks, that a drawing may have: some hundred screens.
const MAX_DRAWN_CELLS: u64 = 50_000;

/// Arguments of `show`.
#[derive(Clone, Debug, Args)]
pub struct ShowArgs {
    #[command(flatten)]
    schedule: ScheduleArgs,
    /// Characters per line [default: the terminal's, or 100]
    #[arg(long)]
    width: Option<usize>,
    /// How transfers are ordered: lanes, megatron, megatron-even-odd, megatron-overlap, megatron-flush or stagger
    #[arg(long, value_name = "NAME", default_value = "lanes")]
    policy: Policy,
    /// List the program of this rank, action by action, instead of the drawing
    #[arg(long, value_name = "RANK")]
    actions: Option<u32>,
}

pub(super) fn run(args: &ShowArgs, out: &mut dyn Write) -> Result<(), CommandError> {
    let config = args.schedule.config()?;
    let verified = verify(args.policy.lower(&config)?)?;
    writeln!(out, "{}", headline(&config))?;
    if let Some(rank) = args.actions {
        return actions(&verified, rank, out);
    }
    let timeline = Timeline::of_order(&Order::generate(&config), &Costs::UNIT)?;
    let width = args.width.or_else(terminal_width).unwrap_or(100);
    let cells = timeline.makespan().saturating_mul(u64::from(config.pp()));
    if cells <= MAX_DRAWN_CELLS {
        writeln!(out, "\n{}", text::draw(&timeline, width))?;
    } else {
        writeln!(
            out,
            "\nnot drawn: {cells} cells, of which at most {MAX_DRAWN_CELLS} are drawn; try fewer microbatches\n"
        )?;
    }
    figures(&config, &timeline, out)?;
    writeln!(out, "\nverified: every computation once, slots, channels, no deadlock with unbuffered channels")?;
    Ok(())
}

/// The width of the terminal that a shell says it has.
fn terminal_width() -> Option<usize> {
    std::env::var("COLUMNS").ok()?.parse().ok()
}

fn headline(config: &ScheduleConfig) -> String {
    let mut line = format!("{} over {}", config.kind(), counted(config.pp(), "rank"));
    if config.vp() > 1 {
        line += &format!(" with {} chunks each", config.vp());
    }
    line += &format!(", {}", counted(config.microbatches(), "microbatch"));
    if matches!(config.kind(), ScheduleKind::Interleaved | ScheduleKind::InterleavedZb) {
        let sizes: Vec<u32> = config.groups().sizes(config.microbatches()).collect();
        let (first, rest) = (sizes[0], &sizes[1..]);
        if rest.iter().all(|size| *size == first) {
            line += &format!(" in groups of {first}");
        } else {
            line += &format!(" in groups of {first}, the last of {}", sizes[sizes.len() - 1]);
        }
    }
    if config.forward_only() {
        line += ", forward only";
    }
    line
}

fn counted(count: u32, noun: &str) -> String {
    let plural = match (count, noun) {
        (1, _) => "",
        (_, noun) if noun.ends_with("ch") => "es",
        _ => "s",
    };
    format!("{count} {noun}{plural}")
}

fn figures(config: &ScheduleConfig, timeline: &Timeline, out: &mut dyn Write) -> Result<(), CommandError> {
    writeln!(
        out,
        "makespan  {} units (1 = forward of one chunk, backward 2, communication free)",
        timeline.makespan()
    )?;
    let closed = match ideal_bubble(config) {
        Some(bubble) => format!("closed form {} = {:.2} %", bubble_formula(config.kind()), 100.0 * bubble),
        None if matches!(config.groups(), Groups::Even { .. }) => {
            "no closed form for uneven or small groups".to_owned()
        }
        None => "no closed form for so few microbatches".to_owned(),
    };
    writeln!(out, "bubble    {:.2} % of the makespan; {closed}", 100.0 * timeline.bubble())?;
    writeln!(out, "\nrank  warmup  steady  cooldown  peak activations in flight")?;
    for rank in (0..config.pp()).map(Rank) {
        let (warmup, steady, cooldown) = phases(config, rank);
        let peak = peak_in_flight(config, rank);
        writeln!(out, "{:>4}  {warmup:>6}  {steady:>6}  {cooldown:>8}  {peak:>4}", rank.0)?;
    }
    Ok(())
}

/// Forwards before the first backward, pairs, and backwards after the last forward.
fn phases(config: &ScheduleConfig, rank: Rank) -> (u32, u32, u32) {
    let m = config.microbatches();
    match config.kind() {
        _ if config.forward_only() => (m * config.vp(), 0, 0),
        ScheduleKind::GPipe => (m, 0, m),
        ScheduleKind::NoPipelining => (0, m * config.vp(), 0),
        _ => {
            let counts = counts(config, rank);
            (counts.warmup, counts.remaining, counts.warmup)
        }
    }
}

fn actions(verified: &VerifiedProgram, rank: u32, out: &mut dyn Write) -> Result<(), CommandError> {
    let ranks = &verified.program().ranks;
    let program = ranks.get(rank as usize).ok_or(CommandError::NoSuchRank { rank, n_ranks: ranks.len() as u32 })?;
    for (index, step) in program.steps().enumerate() {
        writeln!(out, "{index:>6}  {step}")?;
    }
    Ok(())
}
