//! The first line of every output: which schedule it is.

use super::source::Source;
use crate::config::{ScheduleConfig, ScheduleKind};
use crate::placement::Shape;

/// What a schedule is, in a line.
pub(super) fn of(source: &Source) -> String {
    match source.config() {
        Some(config) => of_config(config),
        None => of_file(source),
    }
}

fn of_file(source: &Source) -> String {
    let extent = source.order().extent();
    let placement = extent.placement;
    let mut line = format!("{} over {}", source.file().unwrap_or("a schedule"), counted(placement.n_ranks(), "rank"));
    line += &chunks(placement.n_chunks(), placement.shape());
    line += &format!(", {}", counted(extent.microbatches, "microbatch"));
    if extent.forward_only {
        line += ", forward only";
    }
    line
}

fn chunks(n_chunks: u32, shape: Shape) -> String {
    match (n_chunks, shape) {
        (1, _) => String::new(),
        (n_chunks, Shape::Loop) => format!(" with {n_chunks} chunks each"),
        (n_chunks, Shape::V) => format!(" with {n_chunks} chunks each in a V"),
    }
}

/// What a configuration is, in a line.
pub(super) fn of_config(config: &ScheduleConfig) -> String {
    let mut line = format!("{} over {}", config.kind(), counted(config.pp(), "rank"));
    line += &chunks(config.vp(), config.placement().shape());
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

pub(super) fn counted(count: u32, noun: &str) -> String {
    let plural = match (count, noun) {
        (1, _) => "",
        (_, noun) if noun.ends_with("ch") => "es",
        _ => "s",
    };
    format!("{count} {noun}{plural}")
}
