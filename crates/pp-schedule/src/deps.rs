//! The one dependency relation of pipeline training. Lowering, verifier and simulator all ask here.

use std::fmt;

use crate::ids::{Direction, Microbatch, Stage};
use crate::placement::Placement;
use crate::work::{Work, WorkKind};

/// A tensor on its way from one stage to the next: an activation or a gradient.
///
/// Within a step it is identified by the direction, the stage that consumes it and the microbatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Message {
    /// Activation (forward) or gradient (backward).
    pub direction: Direction,
    /// The stage that consumes it.
    pub stage: Stage,
    /// The microbatch it belongs to.
    pub microbatch: Microbatch,
}

impl Message {
    /// The stage that makes it.
    pub const fn made_by(self) -> Stage {
        match self.direction {
            Direction::Forward => Stage(self.stage.0 - 1),
            Direction::Backward => Stage(self.stage.0 + 1),
        }
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.direction {
            Direction::Forward => "activation",
            Direction::Backward => "gradient",
        };
        write!(f, "{what} of microbatch {} for stage {}", self.microbatch, self.stage)
    }
}

/// The message a computation consumes: a forward its activation, a backward its gradient; none at the ends of the
/// pipeline, and none for a weight gradient.
#[inline]
pub fn input_of(work: Work, placement: Placement) -> Option<Message> {
    let Work { kind, stage, microbatch } = work;
    match kind {
        WorkKind::Forward if !placement.is_first(stage) => {
            Some(Message { direction: Direction::Forward, stage, microbatch })
        }
        WorkKind::Backward | WorkKind::BackwardInput if !placement.is_last(stage) => {
            Some(Message { direction: Direction::Backward, stage, microbatch })
        }
        _ => None,
    }
}

/// The message a computation makes, for the next stage of its direction.
#[inline]
pub fn output_of(work: Work, placement: Placement) -> Option<Message> {
    let Work { kind, stage, microbatch } = work;
    match kind {
        WorkKind::Forward if !placement.is_last(stage) => {
            Some(Message { direction: Direction::Forward, stage: Stage(stage.0 + 1), microbatch })
        }
        WorkKind::Backward | WorkKind::BackwardInput if !placement.is_first(stage) => {
            Some(Message { direction: Direction::Backward, stage: Stage(stage.0 - 1), microbatch })
        }
        _ => None,
    }
}

/// The kind of the computation, of the same stage and microbatch, whose saved state this one needs: a backward needs
/// its forward, a weight gradient its input gradient.
#[inline]
pub const fn state_from(kind: WorkKind) -> Option<WorkKind> {
    match kind {
        WorkKind::Forward => None,
        WorkKind::Backward | WorkKind::BackwardInput => Some(WorkKind::Forward),
        WorkKind::BackwardWeight => Some(WorkKind::BackwardInput),
    }
}

/// Whether a computation leaves state behind for a later one of the same stage and microbatch.
#[inline]
pub const fn leaves_state(kind: WorkKind, forward_only: bool) -> bool {
    match kind {
        WorkKind::Forward => !forward_only,
        WorkKind::BackwardInput => true,
        WorkKind::Backward | WorkKind::BackwardWeight => false,
    }
}
