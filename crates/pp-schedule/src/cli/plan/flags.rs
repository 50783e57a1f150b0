//! The flags that run and show a candidate.

use super::args::Asked;
use crate::plan::{Candidate, Recompute};

/// The flags of the schedule, as `pp-schedule show` takes them.
pub(super) fn schedule(candidate: &Candidate) -> String {
    let spec = &candidate.spec;
    let mut flags = format!("--schedule {} --pp {}", candidate.config.kind(), spec.pp);
    if spec.vp > 1 {
        flags += &format!(" --vp {}", spec.vp);
    }
    flags += &format!(" --microbatches {}", spec.microbatches);
    if let Some(size) = spec.group_size {
        flags += &format!(" --group-size {size}");
    }
    if spec.allow_bubbles {
        flags += " --allow-bubbles";
    }
    flags
}

/// All flags of the trainer.
pub(super) fn trainer(asked: &Asked, candidate: &Candidate) -> String {
    let mut flags = schedule(candidate);
    if candidate.n_replicas > 1 {
        flags += &format!(" --dp {}", candidate.n_replicas);
    }
    let layers = &candidate.stages.layers;
    flags += &format!(" --num-layers {}", layers.n_layers());
    let counts: Vec<u32> = layers.counts().collect();
    if counts.iter().any(|count| *count != counts[0]) {
        let counts: Vec<String> = counts.iter().map(u32::to_string).collect();
        flags += &format!(" --layer-split {}", counts.join(","));
    }
    if let Some(shape) = &asked.shape {
        let (hidden, heads, seq) = (shape.hidden, shape.heads, shape.seq);
        flags += &format!(" --hidden-size {hidden} --num-heads {heads} --seq-length {seq}");
        flags += if shape.tied { "" } else { " --untie" };
    }
    if let Some(micro) = asked.micro_batch {
        flags += &format!(" --micro-batch-size {micro}");
    }
    flags
}

/// What the flags cannot say.
pub(super) fn notes(candidate: &Candidate) -> Vec<&'static str> {
    let again = match candidate.recompute {
        Recompute::None => None,
        Recompute::Selective => {
            Some("attention is computed again: no flag of the trainer; Megatron's --recompute-granularity selective")
        }
        Recompute::Full => Some(
            "layers are computed again: no flag of the trainer; Megatron's --recompute-granularity full \
             --recompute-method uniform --recompute-num-layers 1",
        ),
    };
    let replicas = (candidate.n_replicas > 1).then_some("the trainer runs one replica yet: --dp 1");
    again.into_iter().chain(replicas).collect()
}
