//! The programs that the executor is tried on: every policy that takes a configuration, and every schedule by lanes, over 2 to 4
//! ranks with 1 to 3 chunks each, with their validation programs.

use pp_schedule::lower::Policy;
use pp_schedule::{GPipeBackward, ScheduleConfig, ScheduleKind, ScheduleSpec, VerifiedProgram, verify};

use crate::random::Random;

/// A program and what it is called.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) verified: VerifiedProgram,
    /// Elements of a microbatch's messages, over and over.
    pub(crate) lens: Vec<usize>,
}

/// The sizes of pipelines: ranks, and chunks on each.
pub(crate) fn sizes() -> impl Iterator<Item = (u32, u32)> {
    (2..=4).flat_map(|pp| (1..=3).map(move |vp| (pp, vp)))
}

/// All programs of a size.
pub(crate) fn cases(pp: u32, vp: u32) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |name: String, policy: Policy, spec: &ScheduleSpec| {
        // What the rules of a schedule or a policy do not allow is not tried.
        let Ok(config) = ScheduleConfig::new(spec) else { return };
        for config in [config, config.to_forward_only()] {
            let Ok(program) = policy.lower(&config) else { continue };
            let forward_only = if program.extent.forward_only { ", forward only" } else { "" };
            let name = format!("{name}, pp {pp}, vp {vp}, {} microbatches{forward_only}", spec.microbatches);
            let lens = vec![1 + cases.len() % 7, 40, 3];
            cases.push(Case { name, verified: verify(program).expect("every program is sound"), lens });
        }
    };
    let base = ScheduleSpec::new(pp, vp, 2 * pp);
    for (name, policy) in Policy::ALL {
        add(name.to_owned(), policy, &base);
    }
    for kind in ScheduleKind::ALL {
        add(format!("{kind:?}"), Policy::Lanes, &ScheduleSpec { schedule: Some(kind), ..base.clone() });
    }
    let gpipe = ScheduleSpec { schedule: Some(ScheduleKind::GPipe), ..base };
    let ascending = Some(GPipeBackward::Ascending);
    add("GPipe, ascending".to_owned(), Policy::Lanes, &ScheduleSpec { gpipe_backward: ascending, ..gpipe.clone() });
    for (name, policy) in Policy::ALL.into_iter().skip(1) {
        add(format!("GPipe by {name}"), policy, &gpipe);
    }
    cases
}

/// How many of a size's programs are tried where not all are.
const SOME: usize = 5;

/// Some of the programs, chosen by a seed; all where `PP_EMULATED_ALL` says so.
pub(crate) fn thinned(mut cases: Vec<Case>, (pp, vp): (u32, u32)) -> Vec<Case> {
    if std::env::var_os("PP_EMULATED_ALL").is_some_and(|value| value == "1") {
        return cases;
    }
    let mut random = Random::new(u64::from(10 * pp + vp));
    while cases.len() > SOME {
        cases.remove(random.below(cases.len() as u64) as usize);
    }
    cases
}
