//! What was asked for.

use super::{GPipeBackward, ScheduleKind};
use crate::placement::Shape;

/// What somebody asks for. Nothing in it is checked yet; [`ScheduleConfig::new`](super::ScheduleConfig::new) does that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleSpec {
    /// The schedule, or `None` for Megatron's choice: interleaved if `vp > 1`, else 1F1B, and none for one rank.
    pub schedule: Option<ScheduleKind>,
    /// Pipeline ranks.
    pub pp: u32,
    /// Model chunks per rank; 1 means no virtual pipeline, or the schedule's own number where it has one.
    pub vp: u32,
    /// Microbatches per step.
    pub microbatches: u32,
    /// Microbatches that a chunk runs in a row before the next chunk (interleaved only; default `pp`).
    pub group_size: Option<u32>,
    /// Interleaved with any number of microbatches, at the price of bubbles.
    pub allow_bubbles: bool,
    /// The order of GPipe's backwards (GPipe only; default reverse).
    pub gpipe_backward: Option<GPipeBackward>,
    /// Forwards only, as in validation.
    pub forward_only: bool,
}

impl ScheduleSpec {
    /// A spec with Megatron's choice of schedule and every option at its default.
    pub const fn new(pp: u32, vp: u32, microbatches: u32) -> Self {
        Self {
            schedule: None,
            pp,
            vp,
            microbatches,
            group_size: None,
            allow_bubbles: false,
            gpipe_backward: None,
            forward_only: false,
        }
    }

    /// The schedule asked for, or Megatron's choice.
    pub fn resolved_kind(&self) -> ScheduleKind {
        self.schedule.unwrap_or(match (self.pp, self.vp) {
            (0 | 1, _) => ScheduleKind::NoPipelining,
            (_, 0 | 1) => ScheduleKind::OneFOneB,
            _ => ScheduleKind::Interleaved,
        })
    }

    /// The chunks per rank: those asked for, and two for the schedules over a V where nothing is asked for (`vp` 1).
    pub fn resolved_vp(&self) -> u32 {
        match self.resolved_kind().shape() {
            Shape::V if self.vp == 1 => 2,
            Shape::V | Shape::Loop => self.vp,
        }
    }
}
