//! The generators: one schedule per file, each a short function from a configuration to one rank's compute order.

mod dualpipe_v;
mod gpipe;
mod interleaved;
mod interleaved_zb;
mod looped_bfs;
mod none;
mod one_f_one_b;
mod row;
mod searched;
mod zb_h1;
mod zb_h2;
mod zb_v;

use crate::config::{ScheduleConfig, ScheduleKind};
use crate::ids::Rank;
use crate::work::{Work, WorkKind};

/// The compute order of one rank.
pub fn rank_order(config: &ScheduleConfig, rank: Rank) -> Vec<Work> {
    of_the_step(config, whole_order(config, rank))
}

/// The compute orders of all ranks: what [`rank_order`] gives for each, with a search made once for all.
pub fn all_orders(config: &ScheduleConfig) -> Vec<Vec<Work>> {
    if config.kind().is_searched() {
        return searched::orders(config).into_iter().map(|order| of_the_step(config, order)).collect();
    }
    (0..config.pp()).map(|rank| rank_order(config, Rank(rank))).collect()
}

fn whole_order(config: &ScheduleConfig, rank: Rank) -> Vec<Work> {
    match config.kind() {
        ScheduleKind::NoPipelining => none::order(config),
        ScheduleKind::GPipe => gpipe::order(config, rank),
        ScheduleKind::OneFOneB => one_f_one_b::order(config, rank),
        ScheduleKind::Interleaved => interleaved::order(config, rank),
        ScheduleKind::LoopedBfs => looped_bfs::order(config, rank),
        ScheduleKind::ZbH1 => zb_h1::order(config, rank),
        ScheduleKind::ZbH2 => zb_h2::order(config, rank),
        ScheduleKind::InterleavedZb => interleaved_zb::order(config, rank),
        ScheduleKind::ZbV => zb_v::order(config, rank),
        ScheduleKind::VHalf | ScheduleKind::VMin => searched::order(config, rank),
        ScheduleKind::DualPipeV => dualpipe_v::order(config, rank).0,
    }
}

fn of_the_step(config: &ScheduleConfig, mut order: Vec<Work>) -> Vec<Work> {
    if config.forward_only() {
        // The forwards alone, as they stand in the whole step: they wait for nothing but each other.
        order.retain(|work| work.kind == WorkKind::Forward);
    }
    order
}

/// Where, in [`rank_order`], a forward stands that overlaps with the backward after it; see [`crate::Order::with_pairs`].
pub fn rank_pairs(config: &ScheduleConfig, rank: Rank) -> Vec<u32> {
    match config.kind() {
        ScheduleKind::DualPipeV if !config.forward_only() => dualpipe_v::order(config, rank).1,
        _ => Vec::new(),
    }
}
