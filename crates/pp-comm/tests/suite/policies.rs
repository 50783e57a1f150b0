//! The executor under every lowering policy.

use pp_schedule::lower::megatron::{self, Issue, Overlap};
use pp_schedule::lower::stagger;
use pp_schedule::{ScheduleConfig, ScheduleSpec, verify};

use crate::common::Kind;
use crate::executor::compare;

/// Megatron's exchanges, in batches and one by one, with frees and overlap, and HyperParallel's stagger.
#[test]
fn every_policy_computes_what_a_serial_run_does() {
    let ways = [
        (Issue::Batched, Overlap::Off),
        (Issue::EvenOdd, Overlap::Off),
        (Issue::EvenOdd, Overlap::Steady),
        (Issue::EvenOdd, Overlap::WarmupFlush),
    ];
    for (pp, vp) in (2..=4).flat_map(|pp| (1..=3).map(move |vp| (pp, vp))) {
        let config = ScheduleConfig::new(&ScheduleSpec::new(pp, vp, 2 * pp)).expect("a valid schedule");
        let mut programs = Vec::new();
        for config in [config, config.to_forward_only()] {
            // What a policy does not take is not tried.
            programs.extend(ways.iter().filter_map(|&(issue, overlap)| {
                megatron::lower(&config, megatron::Options { issue, overlap, ..Default::default() }).ok()
            }));
            programs.extend(stagger::lower(&config).ok());
        }
        assert!(programs.len() >= 4, "pp {pp}, vp {vp}: {}", programs.len());
        let programs: Vec<_> = programs.into_iter().map(|program| verify(program).expect("it is sound")).collect();
        for kind in [Kind::Memory(0), Kind::Memory(1), Kind::Socket] {
            programs.iter().for_each(|program| compare(kind, std::slice::from_ref(program)));
        }
    }
}
