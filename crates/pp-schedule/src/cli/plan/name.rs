//! Candidates in words.

use super::super::title;
use crate::plan::{Candidate, Recompute};

/// A candidate's schedule, replicas and what it computes again.
pub(super) fn name(candidate: &Candidate) -> String {
    let mut text = title::of_config(&candidate.config);
    if candidate.n_replicas > 1 {
        text += &format!(", {} replicas", candidate.n_replicas);
    }
    match candidate.recompute {
        Recompute::None => text,
        Recompute::Selective => text + ", attention computed again",
        Recompute::Full => text + ", layers computed again",
    }
}
