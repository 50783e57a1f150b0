//! What no order can be shorter than.
//!
//! For each rank, the largest of
//! - what has to happen before its first forward, and all its work;
//! - the same, its forwards and input gradients, and what has to happen after its last input gradient: the gradient's way
//!   to stage 0 and a weight gradient there;
//! - what has to happen before its first input gradient, and all its work but the forwards that can have run until then:
//!   as many as there are, or as fit the limit;
//! - with two chunks, the same for the second chunk's first forward, before which only the first chunk's can run;
//!
//! and, for all, one microbatch's way there and back. What a rank takes from its own start on is bounded by the same without
//! what comes before its first forward or after its last input gradient.

use super::shape::{FORWARD, INPUT, Shape, WEIGHT};

/// What no order of a shape is shorter than.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// From the first rank's start to the last one's end.
    pub(super) length: u64,
    /// The longest that a rank takes from its own start to its own end.
    pub(super) stage: u64,
}

/// The bounds of a shape.
pub(super) fn bounds(shape: &Shape) -> Bounds {
    let [f, b, w] = [shape.cost[FORWARD], shape.cost[INPUT], shape.cost[WEIGHT]];
    let last = shape.n_stages - 1;
    // The earliest a stage can start its first forward; its first input gradient; and what follows its last.
    let mut forward = vec![0; shape.n_stages];
    for stage in 1..=last {
        forward[stage] = forward[stage - 1] + f + shape.hop(stage - 1, stage);
    }
    let mut input = vec![forward[last] + f; shape.n_stages];
    for stage in (0..last).rev() {
        input[stage] = input[stage + 1] + b + shape.hop(stage + 1, stage);
    }
    let mut after = vec![w; shape.n_stages];
    for stage in 1..=last {
        after[stage] = after[stage - 1] + b + shape.hop(stage, stage - 1);
    }
    let per_rank = (shape.m * shape.n_chunks) as u64;
    let work = per_rank * (f + b + w);
    let of_rank = |rank: usize| {
        let first = shape.stage_of(rank, 0);
        let last = shape.stage_of(rank, shape.n_chunks - 1);
        let forwards = per_rank.min(shape.limit / 2);
        let whole = forward[first] + work;
        let back = forward[first] + per_rank * (f + b) + after[first];
        let waiting = input[last] + work - forwards * f;
        // The second chunk's forward has to fit as well.
        let first_forwards = (shape.m as u64).min((shape.limit - 2) / 2);
        let turning = if shape.n_chunks == 2 { forward[last] + work - first_forwards * f } else { 0 };
        let length = whole.max(back).max(waiting).max(turning);
        // From its own start on a rank has all its work, and waits as long for a microbatch to come back.
        (length, work.max(waiting - forward[first]).max(turning.saturating_sub(forward[first])))
    };
    let of_ranks = (0..shape.n_ranks).map(of_rank);
    of_ranks.fold(Bounds { length: input[0] + b + w, stage: 0 }, |bounds, (length, stage)| Bounds {
        length: bounds.length.max(length),
        stage: bounds.stage.max(stage),
    })
}
