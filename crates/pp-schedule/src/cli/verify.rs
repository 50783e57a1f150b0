//! `verify`: a schedule in torch's text form, proved or refuted.

use std::collections::HashMap;
use std::io::Write;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::CommandError;
use super::source::read_document;
use crate::format::grid::{Grid, Token};
use crate::ids::Rank;
use crate::import::{no_order, refusal, unprovable, written};
use crate::lower::lower_judged;
use crate::lower::written::Wires;
use crate::order::Extent;
use crate::program::Program;
use crate::verify::{Queues, Semantics, VerifyError, check_under};

/// Arguments of `verify`.
#[derive(Clone, Debug, Args)]
pub struct VerifyArgs {
    /// A schedule as torch writes it (CSV: a row per rank, a cell per step), or as JSON or events; `-` for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Which transfers of a rank go one after the other
    #[arg(long, value_enum, default_value_t = QueuesArg::AsStated)]
    queues: QueuesArg,
    /// Messages that a channel holds before its receiver asks for them
    #[arg(long, value_name = "N", default_value_t = 0)]
    capacity: u32,
}

/// [`Queues`] on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum QueuesArg {
    /// Those from one rank to one other (with communication cells), or those of one channel (without)
    AsStated,
    /// All of them, as on one communicator
    OnePerRank,
    /// Those between two ranks, both ways, as torch has them over NCCL when they are issued one by one
    OnePerPair,
    /// Activations, and gradients: two rings
    OnePerDirection,
    /// Sends and receives of activations and of gradients
    FourLanes,
    /// Those from one rank to one other and of one direction
    OnePerChannel,
}

impl QueuesArg {
    const fn queues(self) -> Queues {
        match self {
            // The program is made to state it.
            Self::AsStated | Self::OnePerPair => Queues::AsStated,
            Self::OnePerRank => Queues::OnePerRank,
            Self::OnePerDirection => Queues::OnePerDirection,
            Self::FourLanes => Queues::FourLanes,
            Self::OnePerChannel => Queues::OnePerChannel,
        }
    }

    /// Lanes by direction need wires by direction.
    const fn wires(self) -> Wires {
        match self {
            Self::AsStated | Self::OnePerRank | Self::OnePerPair => Wires::PerPair,
            Self::OnePerDirection | Self::FourLanes | Self::OnePerChannel => Wires::PerPairAndDirection,
        }
    }

    const fn text(self) -> &'static str {
        match self {
            Self::AsStated => "each channel has a queue of its own",
            Self::OnePerRank => "all transfers of a rank stand in one queue",
            Self::OnePerPair => "all transfers between two ranks stand in one queue",
            Self::OnePerDirection => "a rank's transfers stand in a queue per direction",
            Self::FourLanes => "a rank's transfers stand in a queue per direction and role",
            Self::OnePerChannel => "each channel, of one direction, has a queue of its own",
        }
    }
}

impl VerifyArgs {
    /// Verifies a program under the queues and capacity asked for.
    fn judge(&self, program: &mut Program) -> Result<(), VerifyError> {
        if self.queues == QueuesArg::OnePerPair {
            share_queues_by_pair(program);
        }
        check_under(program, Semantics { queues: self.queues.queues(), capacity: self.capacity })
    }
}

/// Makes the channels between two ranks, both ways, share a queue.
fn share_queues_by_pair(program: &mut Program) {
    let mut queues: HashMap<(Rank, Rank), u32> = HashMap::new();
    for (index, channel) in (0..).zip(&mut program.channels) {
        let pair = (channel.source.min(channel.destination), channel.source.max(channel.destination));
        channel.queue = *queues.entry(pair).or_insert(index);
    }
}

pub(super) fn run(args: &VerifyArgs, out: &mut dyn Write) -> Result<(), CommandError> {
    let grid = read_document(&args.file, None)?.grid;
    let program = match grid.has_transfers() {
        true => as_written(&grid, args, out)?,
        false => lowered(&grid, args, out)?,
    };
    proved(&program, args, out)
}

/// Verifies a program that a file states.
fn as_written(grid: &Grid, args: &VerifyArgs, out: &mut dyn Write) -> Result<Program, CommandError> {
    let wires = args.queues.wires();
    let mut written = written(grid, wires)?;
    headline(grid, written.program.extent, out)?;
    let fifo = match wires {
        Wires::PerPair => "one FIFO from each rank to each other, for activations and gradients alike",
        Wires::PerPairAndDirection => "one FIFO from each rank to each other for activations, one for gradients",
    };
    writeln!(out, "as written: each transfer is posted alone where its cell stands; a receive is waited for just")?;
    writeln!(out, "before the computation that needs it, sends at the end of the step")?;
    writeln!(out, "wires: {fifo}")?;
    match args.judge(&mut written.program) {
        Ok(()) => Ok(written.program),
        Err(error) => Err(CommandError::Refuted(refusal(&written, &error))),
    }
}

/// The program that `lanes` makes of a grid of computations, with as little prefetch as makes it pass.
fn lowered(grid: &Grid, args: &VerifyArgs, out: &mut dyn Write) -> Result<Program, CommandError> {
    let order = grid.to_order().map_err(|error| no_order(grid, error))?;
    headline(grid, order.extent(), out)?;
    let judge = |program: &mut Program| args.judge(program).map(|()| program.clone());
    let (program, options) = lower_judged(&order, judge).map_err(|error| unprovable(&error))?;
    let ahead = options.receives_ahead;
    writeln!(out, "computations only: transfers added by the lanes policy, {ahead} ahead per channel")?;
    Ok(program)
}

fn headline(grid: &Grid, extent: Extent, out: &mut dyn Write) -> Result<(), CommandError> {
    let (placement, microbatches) = (extent.placement, extent.microbatches);
    let what = if extent.forward_only { "forward only" } else { "training" };
    let (n_ranks, n_stages) = (placement.n_ranks(), placement.n_stages());
    writeln!(out, "ranks {n_ranks}, stages {n_stages}, microbatches {microbatches}, {what}")?;
    let n_marks = grid.cells().filter(|cell| matches!(cell.token, Token::Mark { .. })).count();
    if n_marks > 0 {
        writeln!(out, "{n_marks} marks (UNSHARD, RESHARD, REDUCE_GRAD) are left out: nothing is proved about them")?;
    }
    Ok(())
}

fn proved(program: &Program, args: &VerifyArgs, out: &mut dyn Write) -> Result<(), CommandError> {
    let n_works: usize = program.ranks.iter().map(|rank| rank.computes.len()).sum();
    let n_messages = program.ranks.iter().map(|rank| rank.transfers.len()).sum::<usize>() / 2;
    let n_channels = program.channels.len();
    let buffers = match args.capacity {
        0 => "nothing is buffered".to_owned(),
        capacity => format!("each channel buffers {capacity}"),
    };
    writeln!(out, "\nproved")?;
    writeln!(out, "  coverage  {n_works} computations, each once, on the rank that holds its stage")?;
    writeln!(out, "  slots     no tensor is read before it is there, overwritten while needed, or left behind")?;
    writeln!(out, "  channels  {n_messages} messages on {n_channels} channels, in the same order at both ends")?;
    writeln!(out, "  progress  no deadlock when {buffers} and {}", args.queues.text())?;
    Ok(())
}
