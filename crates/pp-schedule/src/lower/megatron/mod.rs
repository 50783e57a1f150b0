//! The `megatron` policy: the exchanges of Megatron-LM's schedules, event for event.
//!
//! Where `lanes` lets every channel go its own way, Megatron groups the sends and receives of a step into one exchange on
//! the pipeline group's communicator. [`lower`] makes the program of a whole step; [`trace`] tells, as a [`View`] of one
//! rank's program, what Megatron itself would be seen to do, also where such a program may not run.

mod channels;
mod emitter;
mod interleaved;
mod none;
mod one_f_one_b;
mod options;
mod view;

pub use options::{Issue, MegatronError, Options, Overlap, SendRelease, UnknownMode};
pub use view::{Event, Method, Op, OpKind, Phase, View};

use crate::config::{ScheduleConfig, ScheduleKind};
use crate::ids::Rank;
use crate::order::Extent;
use crate::program::{Channel, Program, RankProgram};
use channels::Ring;
use emitter::Emitter;

/// Whether there is such a program, found without building it.
///
/// # Errors
/// [`MegatronError`] when Megatron has no such schedule, refuses the options, crashes on some rank, or mispairs messages
/// ([`MegatronError::BatchedOverTwoRanks`]).
pub fn check(config: &ScheduleConfig, options: Options) -> Result<(), MegatronError> {
    if config.kind() == ScheduleKind::Interleaved && config.pp() == 2 && options.issue != Issue::EvenOdd {
        return Err(MegatronError::BatchedOverTwoRanks);
    }
    (0..config.pp()).try_for_each(|rank| options.check(config, Rank(rank)))
}

/// The program of a whole step.
///
/// # Errors
/// As [`check`]. [`crate::verify()`] still refuses a program with [`SendRelease::Unwaited`], which frees buffers that are
/// still being sent.
pub fn lower(config: &ScheduleConfig, options: Options) -> Result<Program, MegatronError> {
    check(config, options)?;
    let ranks = (0..config.pp()).map(|rank| Ok(trace(config, options, Rank(rank))?.0));
    let ranks = ranks.collect::<Result<Vec<RankProgram>, MegatronError>>()?;
    Ok(Program { extent: Extent::from(config), channels: Ring::new(config, options.issue).channels(), ranks })
}

/// The program of one rank, and the channels of the whole program.
///
/// # Errors
/// As [`check`].
pub fn lower_rank(
    config: &ScheduleConfig,
    options: Options,
    rank: Rank,
) -> Result<(RankProgram, Vec<Channel>), MegatronError> {
    check(config, options)?;
    Ok((trace(config, options, rank)?.0, Ring::new(config, options.issue).channels()))
}

/// The program of one rank, and the view of it that shows what Megatron would be seen to do.
///
/// # Errors
/// As [`check`] for this rank, but for [`MegatronError::BatchedOverTwoRanks`]: Megatron does that.
pub fn trace(config: &ScheduleConfig, options: Options, rank: Rank) -> Result<(RankProgram, View), MegatronError> {
    options.check(config, rank)?;
    let mut emitter = Emitter::new(config, options, rank);
    match config.kind() {
        ScheduleKind::NoPipelining => none::emit(&mut emitter),
        ScheduleKind::OneFOneB => one_f_one_b::emit(&mut emitter),
        ScheduleKind::Interleaved => interleaved::emit(&mut emitter),
        kind => return Err(MegatronError::NoSuchSchedule { kind }),
    }
    Ok(emitter.finish())
}
