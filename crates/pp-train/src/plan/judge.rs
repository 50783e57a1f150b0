//! Whether a schedule can be run by a lowering policy, and what is said where it cannot.

use pp_schedule::ScheduleConfig;
use pp_schedule::lower::stagger::StaggerError;
use pp_schedule::lower::{Policy, PolicyError};

use crate::args::Args;
use crate::nearest::{Refusal, Try};
use crate::policy::flags;

/// Refuses a policy that does not take both a schedule and its forward-only form.
pub(super) fn check(args: &Args, config: &ScheduleConfig, policy: Policy) -> Result<(), Refusal> {
    let forwards = || policy.for_forwards().check(&config.to_forward_only());
    policy.check(config).and_then(|()| forwards()).map_err(|error| refusal(args, policy, error))
}

fn refusal(args: &Args, policy: Policy, error: PolicyError) -> Refusal {
    let PolicyError::Stagger(StaggerError::TooFewMicrobatches { pp, microbatches }) = error else {
        return Refusal::new(format!("{}: {error}", flags(policy)), []);
    };
    let (pp, micro) = (u64::from(pp), u64::from(args.micro_batch_size));
    let (given, tries) = match args.global_batch_size {
        None => (format!("--microbatches is {microbatches}"), vec![Try::To("--microbatches", pp)]),
        Some(global) => {
            let smaller = u64::from(global) / pp;
            let tries = [Try::To("--micro-batch-size", smaller), Try::To("--global-batch-size", pp * micro)];
            (format!("--global-batch-size {global} is {microbatches} of them"), tries.to_vec())
        }
    };
    let rule = format!(
        "--policy stagger needs at least as many microbatches as ranks, but {given} and --pp {pp}: use smaller microbatches, \
         or gpipe by another policy (--schedule gpipe --policy lanes)"
    );
    Refusal::new(rule, tries)
}
