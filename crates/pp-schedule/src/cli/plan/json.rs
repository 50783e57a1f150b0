//! A plan as one JSON object. Times are in nanoseconds, sizes in bytes.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::args::Asked;
use super::flags;
use crate::plan::{Candidate, Choice, Misfit, Plan, RankMemory, Refused};

/// Of the object's form; a form that older readers would misread gets another number.
const VERSION: u32 = 1;

/// The whole of it, with the best of each of `top` families.
pub(super) fn plan(asked: &Asked, found: &Plan, top: usize) -> Value {
    let winner = found.fits.first().map(|winner| {
        json!({
            "launch": flags::trainer(asked, &winner.candidate),
            "show": flags::schedule(&winner.candidate),
            "notes": flags::notes(&winner.candidate),
        })
    });
    let mut seen = HashSet::new();
    let best = found.fits.iter().filter(|choice| seen.insert(choice.candidate.family())).take(top.max(1));
    json!({
        "format": "pp-schedule plan",
        "version": VERSION,
        "unit": "ns",
        "memory_limit": asked.request.machine.memory,
        "assumed": asked.assumed,
        "candidates": {
            "all": found.n_candidates,
            "do_not_fit": found.n_misfits,
            "bounded": found.n_bounded,
            "group_sizes": found.sampled.map(|(valid, tried)| json!({ "valid": valid, "tried": tried })),
        },
        "winner": winner,
        "ranked": best.map(choice).collect::<Vec<_>>(),
        "misfits": found.misfits.iter().map(misfit).collect::<Vec<_>>(),
        "slower": found.slower.iter().map(candidate).collect::<Vec<_>>(),
        "refused": found.refused.iter().map(refused).collect::<Vec<_>>(),
    })
}

fn choice(choice: &Choice) -> Value {
    let mut value = candidate(&choice.candidate);
    value["step"] = choice.step.into();
    value["makespan"] = choice.makespan.into();
    value["busiest_rank_computes"] = choice.busiest.into();
    value["bubble"] = choice.bubble.into();
    value["played"] = choice.played.into();
    value["memory"] = memory(choice.memory);
    value
}

fn misfit(misfit: &Misfit) -> Value {
    let mut value = candidate(&misfit.candidate);
    value["step"] = misfit.step.into();
    value["memory"] = memory(misfit.memory);
    value
}

fn refused(refused: &Refused) -> Value {
    json!({
        "schedule": refused.kind.map(|kind| kind.name()),
        "pp": refused.pp,
        "vp": refused.vp,
        "rule": refused.rule.to_string(),
    })
}

fn memory(memory: RankMemory) -> Value {
    json!({
        "rank": memory.rank.0,
        "total": memory.total(),
        "weights": memory.weights,
        "activations": memory.saved,
        "computed_again": memory.working,
        "messages": memory.messages,
    })
}

fn candidate(candidate: &Candidate) -> Value {
    let spec = &candidate.spec;
    json!({
        "schedule": candidate.config.kind().name(),
        "pp": spec.pp,
        "dp": candidate.n_replicas,
        "vp": spec.vp,
        "microbatches": spec.microbatches,
        "group_size": spec.group_size,
        "allow_bubbles": spec.allow_bubbles,
        "recompute": candidate.recompute.name(),
        "layers": candidate.stages.layers.counts().collect::<Vec<_>>(),
        "at_least": candidate.least_step,
    })
}
