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

/// Where, in [`rank_order`], a forward stands that overlaps with the backward after it; see [`crate::Order::with_pairs`].
pub fn rank_pairs(config: &ScheduleConfig, _rank: Rank) -> Vec<u32> {
    match config.kind() {
        ScheduleKind::NoPipelining | ScheduleKind::GPipe | ScheduleKind::OneFOneB | ScheduleKind::Interleaved => {
            Vec::new()
        }
    }
}
