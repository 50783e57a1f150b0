//! The generators: one schedule per file, each a short function from a configuration to one rank's compute order.

mod gpipe;
mod interleaved;
mod none;
mod one_f_one_b;

use crate::config::{ScheduleConfig, ScheduleKind};
use crate::ids::Rank;
use crate::work::Work;

/// The compute order of one rank.
pub fn rank_order(config: &ScheduleConfig, rank: Rank) -> Vec<Work> {
    match config.kind() {
        ScheduleKind::NoPipelining => none::order(config),
        ScheduleKind::GPipe => gpipe::order(config, rank),
        ScheduleKind::OneFOneB => one_f_one_b::order(config, rank),
        ScheduleKind::Interleaved => interleaved::order(config, rank),
    }
}
