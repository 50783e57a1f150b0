//! Why a spec is no schedule.

use super::{MAX_CELLS, ScheduleKind};

/// Why a spec is no schedule. Each message names flag, value, rule and the nearest thing that works.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A name that is no schedule's.
    #[error("unknown schedule `{name}` (--schedule); known: {}", known_schedules())]
    UnknownSchedule {
        /// The name given.
        name: String,
    },
    /// A name that is no order of GPipe's backwards.
    #[error("unknown order `{name}` (--gpipe-backward); known: ascending, reverse")]
    UnknownGPipeBackward {
        /// The name given.
        name: String,
    },
    /// A size of zero.
    #[error("{flag} is 0, but must be at least 1")]
    Zero {
        /// The flag that was 0.
        flag: &'static str,
    },
    /// A program of this size would not fit in memory.
    #[error(
        "--pp {pp} x --vp {vp} x --microbatches {microbatches} is more than {MAX_CELLS} pairs of stage and microbatch, \
         the most a program may have; use fewer microbatches"
    )]
    TooLarge {
        /// Pipeline ranks.
        pp: u32,
        /// Chunks per rank.
        vp: u32,
        /// Microbatches.
        microbatches: u32,
    },
    /// A searched schedule of this size would take minutes.
    #[error(
        "--schedule {kind} is searched for, and --pp {pp} with --microbatches {microbatches} is too much for that; use at \
         most --microbatches {most}, or --schedule zb-v"
    )]
    TooLargeToSearch {
        /// The schedule.
        kind: ScheduleKind,
        /// Pipeline ranks.
        pp: u32,
        /// Microbatches.
        microbatches: u32,
        /// The most microbatches that are searched.
        most: u64,
    },
    /// A flag that the schedule has no use for.
    #[error("{flag} is for --schedule {only} only, but the schedule is {kind}; leave it out")]
    NotForThisSchedule {
        /// The flag.
        flag: &'static str,
        /// The schedule resolved.
        kind: ScheduleKind,
        /// The schedule that takes the flag.
        only: ScheduleKind,
    },
    /// `none` over several ranks.
    #[error("--schedule none runs on one rank, but --pp is {pp}; use --pp 1, or --schedule 1f1b")]
    NoPipeliningOnRanks {
        /// Pipeline ranks.
        pp: u32,
    },
    /// Several chunks per rank with a schedule that takes one.
    #[error(
        "--schedule {kind} takes one model chunk per rank, but --vp is {vp}; use --vp 1, or --schedule {}",
        kind.for_more_chunks()
    )]
    OneChunkOnly {
        /// The schedule.
        kind: ScheduleKind,
        /// Chunks per rank.
        vp: u32,
    },
    /// Not two chunks per rank with a schedule over a V.
    #[error(
        "--schedule {kind} puts two model chunks on each rank, in a V, but --vp is {vp}; use --vp 2 (or leave it out), or \
         --schedule {}",
        kind.for_more_chunks()
    )]
    TwoChunksOnly {
        /// The schedule.
        kind: ScheduleKind,
        /// Chunks per rank.
        vp: u32,
    },
    /// Interleaved on a single rank.
    #[error("--schedule interleaved needs at least two ranks, but --pp is 1; use --pp 2, or --schedule none --vp {vp}")]
    InterleavedOnOneRank {
        /// Chunks per rank.
        vp: u32,
    },
    /// `--allow-bubbles` chooses the groups itself.
    #[error(
        "--allow-bubbles chooses the groups itself, but --group-size {group_size} is given too; leave one of them out"
    )]
    BubblesWithGroupSize {
        /// The group size given.
        group_size: u32,
    },
    /// DualPipeV's steady state needs two microbatches per rank.
    #[error(
        "--schedule dualpipe-v needs --microbatches of at least twice --pp, but there are {microbatches} for --pp {pp}; use \
         --microbatches {}, or --allow-bubbles",
        2 * u64::from(*pp)
    )]
    TooFewForDualPipeV {
        /// Pipeline ranks.
        pp: u32,
        /// Microbatches.
        microbatches: u32,
    },
    /// Rounds of interleaved zero bubble that are not of one size.
    #[error(
        "--schedule interleaved-zb needs rounds of one size, at least --pp {pp} microbatches each, but --microbatches \
         {microbatches} do not divide into {}; use --microbatches {below} or {above}, or --allow-bubbles",
        (microbatches / pp).max(1)
    )]
    UnevenRounds {
        /// Pipeline ranks.
        pp: u32,
        /// Microbatches.
        microbatches: u32,
        /// The nearest number below that divides.
        below: u32,
        /// The nearest above.
        above: u32,
    },
    /// The group size is not within `[pp, microbatches]`.
    #[error(
        "interleaved needs pp <= group size <= microbatches, but --pp is {pp}, --group-size {group_size}{}, \
         --microbatches {microbatches}; {advice}",
        if *given { "" } else { " (the default: pp)" }
    )]
    GroupSizeOutOfRange {
        /// Pipeline ranks.
        pp: u32,
        /// The group size.
        group_size: u32,
        /// Whether it was given rather than defaulted.
        given: bool,
        /// Microbatches.
        microbatches: u32,
        /// The nearest values that work.
        advice: String,
    },
    /// The last group would be too small to keep every rank busy.
    #[error(
        "interleaved needs microbatches % group size to be 0 or at least pp, but --microbatches {microbatches} % \
         --group-size {group_size}{} is {remainder} and --pp is {pp}; {advice}",
        if *given { "" } else { " (the default: pp)" }
    )]
    Remainder {
        /// Pipeline ranks.
        pp: u32,
        /// The group size.
        group_size: u32,
        /// Whether it was given rather than defaulted.
        given: bool,
        /// Microbatches.
        microbatches: u32,
        /// What is left for the last group.
        remainder: u32,
        /// The nearest values that work.
        advice: String,
    },
}

fn known_schedules() -> String {
    ScheduleKind::ALL.map(ScheduleKind::name).join(", ")
}
