//! Training steps against those of the processor, from the same weights on the same text.

use std::fmt;
use std::time::Duration;

use anyhow::{Result, bail, ensure};

use super::trainer::{Job, Step};
use super::way::Way;
use crate::conduct::Plan;
use crate::report::Ground;
use crate::tell::{Verdict, check};

const N_STEPS: usize = 10;
/// A model small enough for a processor, large enough for gradients that mean something.
const MODEL: &str = "--mock-data --train-iters 10 --num-layers 4 --hidden-size 128 --num-heads 4 --seq-length 64 \
                     --micro-batch-size 4 --microbatches 4 --eval-iters 1 --lr 1e-3 --tied";
/// For rehearsals, where all runs are the processor's, of which those in bf16 are slow.
const SMALL: &str = "--mock-data --train-iters 10 --num-layers 4 --hidden-size 32 --num-heads 4 --seq-length 16 \
                     --micro-batch-size 2 --microbatches 4 --eval-iters 1 --lr 1e-3 --tied";
/// Of one run of the trainer.
const LIMIT: Duration = Duration::from_secs(40);

/// How far apart two runs may be, relatively. The first step tells whether the gradients are the same; after it, AdamW divides
/// small gradients by their own size, so that rounding grows.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    first_loss: f64,
    first_norm: f64,
    loss: f64,
    norm: f64,
}

/// Other sums, in single precision.
const SINGLE: Bounds = Bounds { first_loss: 1e-5, first_norm: 1e-4, loss: 1e-3, norm: 2e-2 };
/// Numbers of 8 bits between: a rounding is 2^-9 of a number, and many are added.
const BRAIN: Bounds = Bounds { first_loss: 1e-2, first_norm: 5e-2, loss: 5e-2, norm: 3e-1 };

/// The largest relative differences of two runs.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Apart {
    first_loss: f64,
    first_norm: f64,
    loss: f64,
    norm: f64,
}

impl fmt::Display for Apart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first_loss, first_norm, loss, norm } = self;
        write!(
            f,
            "apart at step 1: loss {first_loss:.1e}, norm {first_norm:.1e}; at most: loss {loss:.1e}, norm {norm:.1e}"
        )
    }
}

impl Apart {
    fn between(ours: &[Step], theirs: &[Step]) -> Result<Self> {
        ensure!(
            ours.len() == N_STEPS && theirs.len() == N_STEPS,
            "{} and {} steps of {N_STEPS}",
            ours.len(),
            theirs.len()
        );
        let of = |get: fn(&Step) -> f64| {
            let relative = |(a, b): (&Step, &Step)| (get(a) - get(b)).abs() / get(b).abs();
            ours.iter().zip(theirs).map(relative).collect::<Vec<f64>>()
        };
        let (losses, norms) = (of(|step| step.loss), of(|step| step.grad_norm));
        // What is no number is not within any bound.
        let most =
            |all: &[f64]| all.iter().copied().fold(0.0, |a: f64, b| if b.is_nan() { f64::INFINITY } else { a.max(b) });
        Ok(Self { first_loss: losses[0], first_norm: norms[0], loss: most(&losses), norm: most(&norms) })
    }

    fn within(self, bounds: Bounds) -> Result<Verdict> {
        let fits = self.first_loss <= bounds.first_loss
            && self.first_norm <= bounds.first_norm
            && self.loss <= bounds.loss
            && self.norm <= bounds.norm;
        ensure!(fits, "{self}; allowed: {bounds:?}");
        Ok(Verdict::Passed(self.to_string()))
    }
}

pub(super) fn run(plan: Plan<'_>) -> Result<()> {
    let model = if plan.ground == Ground::Cuda { MODEL } else { SMALL };
    let flags: Vec<&str> = model.split_whitespace().collect();
    let with = |more: [&'static str; 2]| flags.iter().copied().chain(more).collect::<Vec<_>>();
    let job = Job { on_cpu: true, pp: 1, way: None, flags: &flags, limit: LIMIT };
    let mut reference = Vec::new();
    check("ten steps on the processor, f32", || {
        reference = job.steps(plan)?;
        let (first, last) = ends(&reference)?;
        Ok(Verdict::Passed(format!("loss {first} to {last}")))
    })?;
    let against = |job: Job<'_>, bounds: Bounds| {
        ensure!(!reference.is_empty(), "there is nothing to compare with");
        Apart::between(&job.steps(plan)?, &reference)?.within(bounds)
    };
    check("ten steps, f32, pp 1", || against(Job { on_cpu: false, ..job.clone() }, SINGLE))?;
    let brain = with(["--dtype", "bf16"]);
    let brain = Job { on_cpu: false, flags: &brain, ..job.clone() };
    check("ten steps, bf16, pp 1: the loss falls", || falls(&brain.steps(plan)?, &reference))?;
    let way = Way::told();
    let pair = |flags: &[&str], bounds: Bounds| match (plan.ground, way) {
        (Ground::Cuda, None) => Ok(Verdict::Skipped("two ranks cannot share this GPU, or it was not tried".to_owned())),
        _ => against(Job { on_cpu: false, pp: 2, way, flags, ..job.clone() }, bounds),
    };
    check("ten steps, f32, pp 2 on one GPU", || pair(&flags, SINGLE))?;
    check("ten steps, f32, pp 2 vp 2 on one GPU", || pair(&with(["--vp", "2"]), SINGLE))?;
    Ok(())
}

fn ends(steps: &[Step]) -> Result<(f64, f64)> {
    match steps {
        [first, .., last] if steps.len() == N_STEPS => Ok((first.loss, last.loss)),
        _ => bail!("the trainer wrote {} steps of {N_STEPS}", steps.len()),
    }
}

fn falls(steps: &[Step], reference: &[Step]) -> Result<Verdict> {
    let (first, last) = ends(steps)?;
    ensure!(last < first, "the loss went from {first} to {last}");
    Apart::between(steps, reference)?.within(BRAIN)?;
    Ok(Verdict::Passed(format!("loss {first} to {last}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(change: impl Fn(usize) -> f64) -> Vec<Step> {
        let step = |index| Step { loss: 5.0 * change(index), grad_norm: 2.0, tokens: 64.0, step_ms: 1.0 };
        (0..N_STEPS).map(step).collect()
    }

    #[test]
    fn runs_that_drift_too_far_fail_and_say_how_far() {
        let reference = steps(|_| 1.0);
        let drift =
            |last: f64| Apart::between(&steps(|index| if index == 9 { last } else { 1.0 }), &reference).unwrap();
        assert!(drift(1.0 + 1e-4).within(SINGLE).is_ok());
        let error = drift(1.01).within(SINGLE).unwrap_err().to_string();
        assert!(error.contains("at most: loss 1.0e-2"), "{error}");
        assert!(drift(f64::NAN).within(SINGLE).is_err());
        let first = Apart::between(&steps(|index| if index == 0 { 1.0001 } else { 1.0 }), &reference).unwrap();
        assert!(first.within(SINGLE).is_err(), "{first}");
    }

    #[test]
    fn too_few_steps_are_no_comparison() {
        assert!(Apart::between(&steps(|_| 1.0)[1..], &steps(|_| 1.0)).is_err());
        assert!(ends(&steps(|_| 1.0)[1..]).is_err());
    }
}
