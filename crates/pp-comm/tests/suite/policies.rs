//! The executor under every lowering policy.

use pp_schedule::lower::Policy;
use pp_schedule::{ScheduleConfig, ScheduleSpec, verify};

use crate::common::{Kind, between_gpus};
use crate::executor::compare;

/// Lanes, Megatron's exchanges in batches, as a ring and one by one, with frees and overlap, and HyperParallel's stagger.
#[test]
fn every_policy_computes_what_a_serial_run_does() {
    for (pp, vp) in (2..=4).flat_map(|pp| (1..=3).map(move |vp| (pp, vp))) {
        let config = ScheduleConfig::new(&ScheduleSpec::new(pp, vp, 2 * pp)).expect("a valid schedule");
        // What a policy does not take is not tried.
        let configs = [config.to_forward_only(), config];
        let programs = configs
            .iter()
            .flat_map(|config| Policy::ALL.into_iter().filter_map(|(_, policy)| policy.lower(config).ok()));
        let programs: Vec<_> = programs.map(|program| verify(program).expect("it is sound")).collect();
        assert!(programs.len() >= 6, "pp {pp}, vp {vp}: {}", programs.len());
        for kind in [Kind::Memory(0), Kind::Memory(1), Kind::Socket, Kind::Shm] {
            programs.iter().for_each(|program| compare(kind, std::slice::from_ref(program)));
        }
        // Making links between GPUs takes its time: all programs that can share them do.
        for kind in between_gpus() {
            let taken: Vec<_> = programs.iter().filter(|program| kind.takes(program.program())).cloned().collect();
            assert!(taken.len() >= 3, "{kind:?}, pp {pp}, vp {vp}: {}", taken.len());
            compare(kind, &taken);
        }
    }
}
