//! Every small configuration: it verifies, or it is refused by the stated rule with a message that helps.

use pp_schedule::lower::lanes;
use pp_schedule::{
    Certificate, ConfigError, GPipeBackward, Program, Rank, ScheduleConfig, ScheduleKind, ScheduleSpec, SlotClass,
    WorkKind, verify,
};

fn build(spec: &ScheduleSpec) -> Result<ScheduleConfig, ConfigError> {
    let config = ScheduleConfig::new(spec)?;
    for config in [config, config.to_forward_only()] {
        let program = lanes::lower(&config);
        check_ranks_alone(&config, &program);
        if let Err(error) = verify(program) {
            panic!("{spec:?}, forward only: {}: {error}", config.forward_only());
        }
    }
    Ok(config)
}

/// A rank that builds its program alone gets the same one, and the certificate says so.
fn check_ranks_alone(config: &ScheduleConfig, whole: &Program) {
    let verified = verify(whole.clone()).unwrap_or_else(|error| panic!("{config:?}: {error}"));
    let bytes = verified.certificate().to_bytes();
    let certificate = Certificate::from_bytes(&bytes).expect("bytes of a certificate");
    for rank in (0..config.pp()).map(Rank) {
        let (alone, channels) = lanes::lower_rank(config, rank);
        assert_eq!(alone, whole.ranks[rank.idx()]);
        assert!(certificate.certify(alone, channels).is_ok());
    }
}

/// The rule of spec A5, written down once more.
fn rule(pp: u32, group: u32, m: u32) -> bool {
    pp <= group && group <= m && (m.is_multiple_of(group) || m % group >= pp)
}

#[test]
fn interleaved_verifies_or_is_refused_by_the_rule() {
    let mut accepted = 0;
    for (pp, vp) in (2..=4).flat_map(|pp| (1..=4).map(move |vp| (pp, vp))) {
        for (m, group) in (1..=9).flat_map(|m| (1..=m + 1).map(move |group| (m, group))) {
            let spec = ScheduleSpec {
                schedule: Some(ScheduleKind::Interleaved),
                group_size: Some(group),
                ..ScheduleSpec::new(pp, vp, m)
            };
            let built = build(&spec);
            assert_eq!(built.is_ok(), rule(pp, group, m), "{spec:?}: {built:?}");
            accepted += u32::from(built.is_ok());
            if let Err(error) = built {
                let text = error.to_string();
                for part in [format!("--pp is {pp}"), format!("--group-size {group}"), format!("--microbatches {m}")] {
                    assert!(text.contains(&part), "{text}");
                }
                assert!(text.contains("nearest that work"), "{text}");
            }
        }
    }
    assert!(accepted > 100, "{accepted}");
}

#[test]
fn allow_bubbles_verifies_any_number_of_microbatches() {
    for (pp, vp) in (2..=8).flat_map(|pp| (1..=4).map(move |vp| (pp, vp))) {
        for m in 1..=20 {
            let spec = ScheduleSpec {
                schedule: Some(ScheduleKind::Interleaved),
                allow_bubbles: true,
                ..ScheduleSpec::new(pp, vp, m)
            };
            build(&spec).expect("allowed");
            let both = ScheduleSpec { group_size: Some(pp), ..spec };
            assert!(matches!(ScheduleConfig::new(&both), Err(ConfigError::BubblesWithGroupSize { .. })));
        }
    }
}

#[test]
fn the_other_schedules_verify_for_any_number_of_microbatches() {
    for pp in 1..=8 {
        for m in 1..=20 {
            for gpipe_backward in [GPipeBackward::Reverse, GPipeBackward::Ascending] {
                let gpipe = ScheduleSpec {
                    schedule: Some(ScheduleKind::GPipe),
                    gpipe_backward: Some(gpipe_backward),
                    ..ScheduleSpec::new(pp, 1, m)
                };
                build(&gpipe).expect("gpipe takes any m");
            }
            let one = ScheduleSpec { schedule: Some(ScheduleKind::OneFOneB), ..ScheduleSpec::new(pp, 1, m) };
            build(&one).expect("1f1b takes any m");
        }
    }
    for (vp, m) in (1..=4).flat_map(|vp| (1..=9).map(move |m| (vp, m))) {
        build(&ScheduleSpec::new(1, vp, m)).expect("one rank takes any vp");
    }
}

#[test]
fn peak_activations_are_the_predicted_ones() {
    let saved = |spec: &ScheduleSpec, rank: usize| {
        let config = ScheduleConfig::new(spec).expect("valid");
        lanes::lower(&config).ranks[rank].n_slots(SlotClass::Saved)
    };
    // Stage 0 of four keeps four microbatches, however many there are.
    for m in [8, 64] {
        assert_eq!(saved(&ScheduleSpec::new(4, 1, m), 0), 4);
        assert_eq!(saved(&ScheduleSpec::new(4, 1, m), 3), 1);
    }
    let interleaved = ScheduleSpec::new(4, 2, 8);
    assert_eq!((0..4).map(|rank| saved(&interleaved, rank)).collect::<Vec<_>>(), [11, 9, 7, 5]);
    let gpipe = ScheduleSpec { schedule: Some(ScheduleKind::GPipe), ..ScheduleSpec::new(4, 1, 8) };
    assert_eq!(saved(&gpipe, 0), 8);
}

#[test]
fn message_buffers_stay_within_the_stated_prefetch() {
    for m in [8, 64] {
        for rank in &lanes::lower(&ScheduleConfig::new(&ScheduleSpec::new(4, 2, m)).expect("valid")).ranks {
            assert!(rank.n_slots(SlotClass::Receive) <= 4, "two lanes of two");
            assert!(rank.n_slots(SlotClass::Send) <= 4, "two lanes of two");
        }
    }
}

#[test]
fn bad_requests_name_the_flag_the_value_and_what_works() {
    let message = |spec: ScheduleSpec| ScheduleConfig::new(&spec).expect_err("refused").to_string();
    let m3 = message(ScheduleSpec::new(4, 2, 3));
    for part in
        ["--pp is 4", "--group-size 4 (the default: pp)", "--microbatches 3", "--microbatches 4", "--allow-bubbles"]
    {
        assert!(m3.contains(part), "{m3}");
    }
    assert_eq!(message(ScheduleSpec::new(0, 1, 1)), "--pp is 0, but must be at least 1");
    let two_chunks = ScheduleSpec { schedule: Some(ScheduleKind::GPipe), ..ScheduleSpec::new(2, 2, 4) };
    assert!(message(two_chunks).contains("--vp is 2; use --vp 1"));
    let none = ScheduleSpec { schedule: Some(ScheduleKind::NoPipelining), ..ScheduleSpec::new(2, 1, 4) };
    assert!(message(none).contains("--schedule none runs on one rank, but --pp is 2"));
    assert!(message(ScheduleSpec::new(u32::MAX, u32::MAX, u32::MAX)).contains("the most a program may have"));
    let unknown = "zigzag".parse::<ScheduleKind>().expect_err("unknown").to_string();
    assert_eq!(
        unknown,
        "unknown schedule `zigzag` (--schedule); known: 1f1b, dualpipe-v, gpipe, interleaved, interleaved-zb, looped-bfs, none, \
         v-half, v-min, zb-h1, zb-h2, zb-v"
    );
    assert_eq!("GPipe".parse::<ScheduleKind>(), Ok(ScheduleKind::GPipe));
}

#[test]
fn steady_state_pairs_a_forward_with_a_backward() {
    let config = ScheduleConfig::new(&ScheduleSpec::new(2, 2, 4)).expect("valid");
    let row = |rank| {
        let row = pp_schedule::rank_order(&config, Rank(rank));
        row.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(row(0), "0F0 0F1 2F0 2F1 0F2 2B0 0F3 2B1 2F2 0B0 2F3 0B1 2B2 2B3 0B2 0B3");
    assert_eq!(row(1), "1F0 1F1 3F0 3B0 3F1 3B1 1F2 1B0 1F3 1B1 3F2 3B2 3F3 3B3 1B2 1B3");
    let split = pp_schedule::rank_order(&config, Rank(0)).iter().any(|work| work.kind == WorkKind::BackwardInput);
    assert!(!split, "1F1B has whole backwards");
}

/// Every closed form against the built and simulated schedule.
#[test]
fn closed_forms_equal_what_is_built() {
    use pp_schedule::simulate::{Costs, Timeline};
    use pp_schedule::{Order, figures};
    let mut with_bubbles_known = 0;
    for config in valid_configs() {
        let program = lanes::lower(&config);
        for rank in (0..config.pp()).map(Rank) {
            let slots = program.ranks[rank.idx()].n_slots(SlotClass::Saved);
            assert_eq!(slots as u32, figures::peak_saved(&config, rank), "{config:?} rank {rank}");
        }
        let timeline = Timeline::of_order(&Order::generate(&config), &Costs::UNIT).expect("runs");
        if let Some(bubble) = figures::ideal_bubble(&config) {
            assert!((timeline.bubble() - bubble).abs() < 1e-12, "{config:?}: {} {bubble}", timeline.bubble());
            with_bubbles_known += 1;
        }
    }
    assert!(with_bubbles_known > 300, "{with_bubbles_known}");
}

#[test]
fn makespans_of_the_known_settings() {
    use pp_schedule::Order;
    use pp_schedule::simulate::{Costs, Timeline};
    let makespan = |spec: ScheduleSpec| {
        let config = ScheduleConfig::new(&spec).expect("valid");
        let timeline = Timeline::of_order(&Order::generate(&config), &Costs::UNIT).expect("runs");
        timeline.makespan() as f64 / f64::from(spec.vp)
    };
    assert_eq!(makespan(ScheduleSpec::new(4, 1, 8)), 33.0);
    assert_eq!(makespan(ScheduleSpec::new(4, 2, 8)), 28.5);
    assert_eq!(makespan(ScheduleSpec::new(4, 4, 8)), 26.25);
    assert_eq!(makespan(ScheduleSpec::new(8, 2, 16)), 58.5);
    assert_eq!(makespan(ScheduleSpec { group_size: Some(3), ..ScheduleSpec::new(2, 2, 5) }), 16.5);
    assert_eq!(makespan(ScheduleSpec { group_size: Some(5), ..ScheduleSpec::new(4, 2, 10) }), 34.5);
}

fn valid_configs() -> Vec<ScheduleConfig> {
    let mut specs = Vec::new();
    for (pp, vp, m) in (1..=5).flat_map(|pp| (1..=3).flat_map(move |vp| (1..=12).map(move |m| (pp, vp, m)))) {
        let plain = ScheduleSpec::new(pp, vp, m);
        specs.push(plain.clone());
        specs.push(ScheduleSpec { schedule: Some(ScheduleKind::GPipe), ..plain.clone() });
        specs.push(ScheduleSpec { allow_bubbles: true, ..plain.clone() });
        specs.extend((1..=m).map(|group| ScheduleSpec {
            schedule: Some(ScheduleKind::Interleaved),
            group_size: Some(group),
            ..plain.clone()
        }));
    }
    specs.iter().filter_map(|spec| ScheduleConfig::new(spec).ok()).collect()
}
