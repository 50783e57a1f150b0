//! Microbatches per step, and the schedule over them.

use std::str::FromStr;

use pp_schedule::{ConfigError, GPipeBackward, ScheduleConfig, ScheduleKind, ScheduleSpec};

use crate::args::Args;
use crate::nearest::{Refusal, Try};

pub(crate) const GLOBAL: &str = "--global-batch-size";

/// Microbatches per step, by whichever of the two flags is given.
pub(crate) fn microbatches(args: &Args) -> Result<u32, Refusal> {
    let micro = args.micro_batch_size;
    let Some(global) = args.global_batch_size else {
        return Ok(args.microbatches());
    };
    if !global.is_multiple_of(micro) {
        let below = u64::from(global / micro) * u64::from(micro);
        let near =
            [below, below + u64::from(micro)].into_iter().filter(|&near| near > 0).map(|near| Try::To(GLOBAL, near));
        let divisor = Try::To("--micro-batch-size", nearest_divisor(global, micro).into());
        let rule = format!("--global-batch-size {global} is not divisible by --micro-batch-size {micro}");
        return Err(Refusal::new(rule, near.chain([divisor])));
    }
    let microbatches = global / micro;
    if let Some(given) = args.microbatches.filter(|&given| given != microbatches) {
        let rule = format!(
            "--microbatches {given} disagrees with --global-batch-size {global}, which is {microbatches} microbatches of \
             --micro-batch-size {micro}; leave one of them out"
        );
        let tries =
            [Try::To("--microbatches", microbatches.into()), Try::To(GLOBAL, u64::from(given) * u64::from(micro))];
        return Err(Refusal::new(rule, tries));
    }
    Ok(microbatches)
}

/// The divisor of `value` nearest to `wanted`, the smaller of two equally near.
fn nearest_divisor(value: u32, wanted: u32) -> u32 {
    (1..=value).filter(|&by| value.is_multiple_of(by)).min_by_key(|&by| (by.abs_diff(wanted), by)).unwrap_or(1)
}

/// The schedule that flags ask for, over so many microbatches; a refusal speaks of the batch as it was given.
pub(crate) fn schedule(args: &Args, microbatches: u32) -> Result<ScheduleConfig, Refusal> {
    let spec = &ScheduleSpec {
        schedule: args.schedule.as_deref().map(ScheduleKind::from_str).transpose()?,
        group_size: args.group_size,
        allow_bubbles: args.allow_bubbles,
        gpipe_backward: args.gpipe_backward.as_deref().map(GPipeBackward::from_str).transpose()?,
        ..ScheduleSpec::new(args.pp.unwrap_or(1), args.vp.unwrap_or(1), microbatches)
    };
    ScheduleConfig::new(spec).map_err(|error| match args.global_batch_size {
        Some(global) => of_global(args, spec, global, &error),
        None => error.into(),
    })
}

/// What is said of a number of microbatches is advice for a batch size.
fn of_global(args: &Args, spec: &ScheduleSpec, global: u32, error: &ConfigError) -> Refusal {
    let (m, micro) = (spec.microbatches, args.micro_batch_size);
    let text = error.to_string();
    let prefix = format!("--global-batch-size {global} is {m} microbatches of --micro-batch-size {micro}");
    let (ConfigError::Remainder { advice, .. } | ConfigError::GroupSizeOutOfRange { advice, .. }) = error else {
        return Refusal::new(format!("{prefix}: {text}"), []);
    };
    let rule = text.strip_suffix(advice.as_str()).unwrap_or(&text).trim_end_matches("; ");
    let runs = |&microbatches: &u32| ScheduleConfig::new(&ScheduleSpec { microbatches, ..spec.clone() }).is_ok();
    let above = m..=m.saturating_add(spec.pp.max(spec.group_size.unwrap_or(1)));
    let near = [(1..m).rev().find(runs), above.into_iter().find(runs)];
    let tries = near.into_iter().flatten().map(|m| Try::To(GLOBAL, u64::from(m) * u64::from(micro)));
    Refusal::new(format!("{prefix}: {rule}"), tries)
}
