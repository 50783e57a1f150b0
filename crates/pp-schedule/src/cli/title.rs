//! The first line of every output: which schedule it is.

use super::source::Source;
use crate::config::{ScheduleConfig, ScheduleKind};
use crate::order::Extent;
use crate::placement::Shape;

/// What a schedule is, in a line.
pub(super) fn of(source: &Source) -> String {
    match source {
        Source::Generated(config, _) => of_config(config),
        Source::Given { name, order, .. } => line(name, order.extent(), ""),
    }
}

/// What a configuration is, in a line.
pub(super) fn of_config(config: &ScheduleConfig) -> String {
    line(config.kind().name(), config.into(), &groups(config))
}

fn line(name: &str, extent: Extent, groups: &str) -> String {
    let Extent { placement, microbatches, forward_only } = extent;
    let (ranks, chunks) = (counted(placement.n_ranks(), "rank"), chunks(placement.n_chunks(), placement.shape()));
    let microbatches = counted(microbatches, "microbatch");
    let forward_only = if forward_only { ", forward only" } else { "" };
    format!("{name} over {ranks}{chunks}, {microbatches}{groups}{forward_only}")
}

fn chunks(n_chunks: u32, shape: Shape) -> String {
    match (n_chunks, shape) {
        (1, _) => String::new(),
        (n_chunks, Shape::Loop) => format!(" with {n_chunks} chunks each"),
        (n_chunks, Shape::V) => format!(" with {n_chunks} chunks each in a V"),
    }
}

/// The groups that microbatches go through a chunk in, of the schedules that have them.
fn groups(config: &ScheduleConfig) -> String {
    if !matches!(config.kind(), ScheduleKind::Interleaved | ScheduleKind::InterleavedZb) {
        return String::new();
    }
    let sizes: Vec<u32> = config.groups().sizes(config.microbatches()).collect();
    match sizes[..] {
        [first, .., last] if sizes.iter().any(|size| *size != first) => {
            format!(" in groups of {first}, the last of {last}")
        }
        [first, ..] => format!(" in groups of {first}"),
        [] => String::new(),
    }
}

fn counted(count: u32, noun: &str) -> String {
    let plural = match (count, noun) {
        (1, _) => "",
        (_, noun) if noun.ends_with("ch") => "es",
        _ => "s",
    };
    format!("{count} {noun}{plural}")
}
