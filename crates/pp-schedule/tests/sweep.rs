//! The sweep at sizes that take a few seconds unoptimised; `cargo xtask ci sweep` goes through all of them.

use pp_schedule::sweep::{Bounds, sweep};

#[test]
fn every_small_schedule_is_proved_or_refused_by_the_rule() {
    let report = sweep(&Bounds { pp: 1..=4, vp: 1..=4, microbatches: 1..=8 });
    assert_eq!(report.failures, Vec::<String>::new());
    // Counted, so that a rule that comes to refuse everything is seen.
    assert!(report.lanes.proved == report.specs.proved && report.lanes.proved > 1900, "{report:?}");
    assert!(report.megatron.proved > 3000 && report.stagger.proved > 25, "{report:?}");
    assert!(report.specs.refused > 0 && report.megatron.refused > 0 && report.stagger.refused > 0, "{report:?}");
}
