//! HyperParallel's 1F1B: proved on one queue per pair of ranks for m >= p, refused below.

use pp_schedule::lower::{lanes, stagger};
use pp_schedule::verify::{Queues, Semantics, check, check_under};
use pp_schedule::{Order, ScheduleConfig, ScheduleKind, ScheduleSpec, SlotClass, Work};

fn one_f_one_b(pp: u32, m: u32) -> ScheduleConfig {
    let schedule = Some(ScheduleKind::OneFOneB);
    ScheduleConfig::new(&ScheduleSpec { schedule, ..ScheduleSpec::new(pp, 1, m) }).expect("valid")
}

#[test]
fn it_is_proved_for_as_many_microbatches_as_ranks_and_more() {
    for (pp, m) in (1..=9).flat_map(|pp| (pp..=pp + 20).map(move |m| (pp, m))) {
        let config = one_f_one_b(pp, m);
        let program = stagger::lower(&config).expect("m >= p");
        check(&program).unwrap_or_else(|error| panic!("pp {pp} m {m}: {error}"));
        for (row, ranked) in Order::generate(&config).rows().iter().zip(&program.ranks) {
            let run: Vec<Work> = ranked.computes.iter().map(|compute| compute.work).collect();
            assert_eq!(&run, row, "the compute order is 1F1B's");
            assert!(ranked.n_slots(SlotClass::Send) <= pp as usize + 2);
        }
    }
}

#[test]
fn below_it_advises() {
    for (pp, m) in (2..=6).flat_map(|pp| (1..pp).map(move |m| (pp, m))) {
        let error = stagger::lower(&one_f_one_b(pp, m)).expect_err("m < p").to_string();
        assert!(error.contains("use smaller microbatches") && error.contains("--schedule gpipe"), "{error}");
    }
    let forward_only = stagger::lower(&one_f_one_b(2, 4).to_forward_only()).expect_err("no backwards").to_string();
    assert!(forward_only.contains("the schedule is 1f1b, forward only"), "{forward_only}");
}

/// What the stagger is for: the plain order of transfers does not survive one queue per rank.
#[test]
fn lanes_need_their_lanes() {
    let program = lanes::lower(&one_f_one_b(4, 8));
    let one_queue = Semantics { queues: Queues::OnePerRank, capacity: 0 };
    assert!(check(&program).is_ok());
    assert!(check_under(&program, one_queue).is_err());
    assert!(check_under(&stagger::lower(&one_f_one_b(4, 8)).expect("lowers"), one_queue).is_ok());
}
