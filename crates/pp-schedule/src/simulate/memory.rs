//! What a rank has saved for its backwards at any time. A microbatch of a chunk is *in flight* from the start of its forward
//! to the end of its backward, or of its backward for the input; then *deferred*, until the end of its backward for the
//! weights. *Saved* is both together: as many as there are saved slots in the rank's program ([`crate::SlotClass::Saved`]).

use super::timeline::Span;
use crate::ids::Stage;
use crate::work::WorkKind;

/// How much a rank holds from a moment on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Level {
    /// When it begins to hold that much, in ticks.
    pub time: u64,
    /// Microbatches of a chunk whose forward has begun and whose backward for the input has not ended.
    pub in_flight: u32,
    /// Microbatches of a chunk whose backward for the input has ended and whose backward for the weights has not.
    pub deferred: u32,
    /// Bytes of both.
    pub bytes: u64,
}

/// Bytes that a stage holds per microbatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct StageBytes {
    /// From the forward to the backward (or the backward for the input).
    pub activation: u64,
    /// From the backward for the input to that for the weights.
    pub deferred: u64,
}

/// The levels of a rank's row, from 0 on, by time; a level for every change. What a computation takes it takes when it
/// starts, what it gives up it gives up when it ends: the executor's count of saved slots. Empty for forwards only.
pub fn levels(row: &[Span], forward_only: bool, bytes: impl Fn(Stage) -> StageBytes) -> Vec<Level> {
    let mut levels: Vec<Level> = Vec::new();
    if forward_only {
        return levels;
    }
    let mut level = Level::default();
    for span in row {
        let StageBytes { activation, deferred } = bytes(span.work.stage);
        match span.work.kind {
            WorkKind::Forward => {
                (level.time, level.in_flight, level.bytes) =
                    (span.start, level.in_flight + 1, level.bytes.saturating_add(activation));
            }
            // Rows that leave something out, such as part of a measured step, go no lower than nothing.
            WorkKind::Backward | WorkKind::BackwardInput => {
                level.time = span.end;
                level.in_flight = level.in_flight.saturating_sub(1);
                level.bytes = level.bytes.saturating_sub(activation);
                if span.work.kind == WorkKind::BackwardInput {
                    level.deferred += 1;
                    level.bytes = level.bytes.saturating_add(deferred);
                }
            }
            WorkKind::BackwardWeight => {
                level.time = span.end;
                level.deferred = level.deferred.saturating_sub(1);
                level.bytes = level.bytes.saturating_sub(deferred);
            }
        }
        levels.push(level);
    }
    levels
}
