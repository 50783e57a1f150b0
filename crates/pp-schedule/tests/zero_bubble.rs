//! Known step times and bubbles of the zero-bubble orders, and what is known of every order whatever its size.

use pp_schedule::lower::lanes;
use pp_schedule::simulate::{Costs, Link, StageCosts, Timeline};
use pp_schedule::{
    ConfigError, Groups, Microbatch, Order, Rank, ScheduleConfig, ScheduleKind, ScheduleSpec, SlotClass, Stage, Work,
    WorkKind, figures, rank_order, verify,
};

/// The kinds that this file is about.
const KINDS: [ScheduleKind; 6] = [
    ScheduleKind::LoopedBfs,
    ScheduleKind::ZbH1,
    ScheduleKind::ZbH2,
    ScheduleKind::InterleavedZb,
    ScheduleKind::ZbV,
    ScheduleKind::DualPipeV,
];

fn config(kind: ScheduleKind, pp: u32, vp: u32, m: u32) -> Result<ScheduleConfig, ConfigError> {
    ScheduleConfig::new(&ScheduleSpec { schedule: Some(kind), allow_bubbles: true, ..ScheduleSpec::new(pp, vp, m) })
}

fn order(kind: ScheduleKind, pp: u32, vp: u32, m: u32) -> Order {
    Order::generate(&config(kind, pp, vp, m).expect("valid"))
}

fn row(kind: ScheduleKind, (pp, vp, m): (u32, u32, u32), rank: u32) -> String {
    let row = rank_order(&config(kind, pp, vp, m).expect("valid"), Rank(rank));
    row.iter().map(Work::to_string).collect::<Vec<_>>().join(" ")
}

/// Every configuration of these kinds up to the sizes given; over a V, `vp` is 2.
fn grid(pp: u32, vp: u32, m: u32) -> Vec<ScheduleConfig> {
    let mut configs = Vec::new();
    for kind in KINDS {
        for (pp, vp) in (1..=pp).flat_map(|pp| (1..=vp).map(move |vp| (pp, vp))) {
            let of = |m| config(kind, pp, vp, m).ok().filter(|config| config.vp() == vp);
            configs.extend((1..=m).filter_map(of));
        }
    }
    configs
}

#[test]
fn makespans_at_unit_costs() {
    let makespan = |kind, pp, vp, m| {
        let ticks = Timeline::of_order(&order(kind, pp, vp, m), &Costs::UNIT).expect("runs").makespan();
        ticks as f64 / f64::from(vp)
    };
    for kind in [ScheduleKind::InterleavedZb, ScheduleKind::ZbV, ScheduleKind::DualPipeV] {
        assert_eq!(makespan(kind, 4, 2, 8), 25.5, "{kind}");
        assert_eq!(makespan(kind, 8, 2, 16), 51.5, "{kind}");
    }
    // Breadth first is as long as GPipe and 1F1B, over two chunks as long as interleaved.
    assert_eq!(makespan(ScheduleKind::LoopedBfs, 4, 1, 8), 33.0);
    assert_eq!(makespan(ScheduleKind::LoopedBfs, 4, 2, 8), 28.5);
    assert_eq!(makespan(ScheduleKind::ZbH1, 4, 1, 8), 27.0);
    assert_eq!(makespan(ScheduleKind::ZbH2, 4, 1, 8), 27.0);
}

/// Settings of the zero-bubble paper (Qi et al. 2023) as measured on its models: the bubble by the longest stage, to four
/// digits.
#[test]
fn bubbles_of_measured_costs() {
    let settings = [
        ((8, 24), [18522, 18086, 9337, 601], [".2431", ".1585", ".1083"]),
        ((8, 64), [18546, 18097, 9321, 762], [".1240", ".0674", ".0444"]),
        ((8, 24), [29718, 29444, 19927, 527], [".2347", ".1323", ".0698"]),
        ((16, 48), [11347, 11248, 8132, 377], [".2552", ".1397", ".0672"]),
        ((32, 96), [10419, 10207, 7715, 408], [".2646", ".1421", ".0641"]),
        ((32, 256), [10402, 10248, 7698, 460], [".1352", ".0594", ".0257"]),
    ];
    for ((pp, m), [forward, backward_input, backward_weight, latency], bubbles) in settings {
        let backward = backward_input + backward_weight;
        let costs = Costs::uniform(StageCosts { forward, backward, backward_input, backward_weight })
            .with_link(Link { latency, transfer: 0 });
        let kinds = [ScheduleKind::OneFOneB, ScheduleKind::ZbH1, ScheduleKind::ZbH2];
        for (kind, bubble) in kinds.into_iter().zip(bubbles) {
            let timeline = Timeline::of_order(&order(kind, pp, 1, m), &costs).expect("runs");
            let simulated = format!("{:.4}", timeline.longest_stage_bubble());
            assert_eq!(simulated.trim_start_matches('0'), bubble, "{kind} over {pp} ranks, {m} microbatches");
        }
    }
}

#[test]
fn no_bubble_within_a_rank_when_all_costs_are_equal() {
    for (pp, m) in [(2, 3), (4, 8), (5, 9), (8, 24)] {
        for kind in [ScheduleKind::ZbH2, ScheduleKind::ZbV] {
            let timeline = Timeline::of_order(&order(kind, pp, 1, m.max(2 * pp - 1)), &Costs::UNIT).expect("runs");
            assert_eq!(timeline.longest_stage_bubble(), 0.0, "{kind} {pp} {m}");
        }
        // ZB-H1 keeps a third of the bubble of 1F1B.
        let timeline = Timeline::of_order(&order(ScheduleKind::ZbH1, pp, 1, m), &Costs::UNIT).expect("runs");
        assert_eq!(timeline.longest_stage(), u64::from(3 * m + pp - 1));
    }
}

#[test]
fn rows_to_be_read_by_people() {
    let h1 = |rank| row(ScheduleKind::ZbH1, (3, 1, 4), rank);
    assert_eq!(h1(0), "0F0 0F1 0F2 0I0 0W0 0F3 0I1 0W1 0I2 0W2 0I3 0W3");
    assert_eq!(h1(2), "2F0 2I0 2F1 2I1 2F2 2I2 2W0 2F3 2I3 2W1 2W2 2W3");
    let h2 = |rank| row(ScheduleKind::ZbH2, (2, 1, 4), rank);
    assert_eq!(h2(0), "0F0 0F1 0F2 0I0 0W0 0F3 0I1 0W1 0I2 0W2 0I3 0W3");
    assert_eq!(h2(1), "1F0 1I0 1F1 1I1 1F2 1I2 1W0 1F3 1I3 1W1 1W2 1W3");
    let v = |rank| row(ScheduleKind::ZbV, (2, 2, 2), rank);
    assert_eq!(v(0), "0F0 0F1 3F0 3I0 3W0 3F1 3I1 3W1 0I0 0W0 0I1 0W1");
    assert_eq!(v(1), "1F0 2F0 1F1 2F1 2I0 2W0 1I0 1W0 2I1 2W1 1I1 1W1");
    let looped = row(ScheduleKind::LoopedBfs, (2, 2, 2), 0);
    assert_eq!(looped, "0F0 0F1 2F0 2F1 2B1 2B0 0B1 0B0");
}

#[test]
fn overlapped_pairs_are_a_forward_and_a_whole_backward_of_the_other_chunk() {
    let (pp, m) = (4, 10);
    let order = order(ScheduleKind::DualPipeV, pp, 2, m);
    for (rank, row) in (0..).map(Rank).zip(order.rows()) {
        for &start in order.pairs(rank) {
            let [forward, backward] = [row[start as usize], row[start as usize + 1]];
            assert_eq!((forward.kind, backward.kind), (WorkKind::Forward, WorkKind::Backward));
            assert_ne!(forward.stage, backward.stage);
        }
        // Two a turn in the steady phase, one a turn after it; the first of the last rank runs apart.
        let (steady, after) = (m - 2 * pp + rank.0 + 1, pp - 1 - rank.0);
        assert_eq!(order.pairs(rank).len() as u32, 2 * steady + after - u32::from(after == 0), "rank {rank}");
    }
}

#[test]
fn every_order_covers_its_step_verifies_and_keeps_what_was_predicted() {
    let mut n_configs = 0;
    for config in grid(6, 3, 14) {
        for config in [config, config.to_forward_only()] {
            let order = Order::generate(&config);
            let covered = Order::new(order.extent(), order.rows().to_vec());
            assert_eq!(covered.and_then(|covered| covered.with_pairs(all_pairs(&order))), Ok(order.clone()));
            let program = verify(lanes::lower(&config)).unwrap_or_else(|error| panic!("{config:?}: {error}"));
            for rank in (0..config.pp()).map(Rank) {
                let slots = program.program().ranks[rank.idx()].n_slots(SlotClass::Saved);
                assert_eq!(slots as u32, figures::peak_saved(&config, rank), "{config:?} rank {rank}");
            }
            let timeline = Timeline::of_order(&order, &Costs::UNIT).expect("runs");
            if let Some(bubble) = figures::ideal_bubble(&config) {
                assert!((timeline.bubble() - bubble).abs() < 1e-12, "{config:?}: {} {bubble}", timeline.bubble());
            }
            n_configs += 1;
        }
    }
    assert!(n_configs > 1000, "{n_configs}");
}

fn all_pairs(order: &Order) -> Vec<Vec<u32>> {
    (0..order.extent().placement.n_ranks()).map(|rank| order.pairs(Rank(rank)).to_vec()).collect()
}

/// Sizes beyond those of the sweep, where the prefetch on the ring has to grow with the ranks.
#[test]
fn the_prefetch_is_enough_over_many_ranks() {
    for pp in [12, 16, 21, 32] {
        for (vp, m) in [(2, pp - 1), (3, 2 * pp - 1), (3, 2 * pp), (4, 3 * pp - 1)] {
            for kind in [ScheduleKind::InterleavedZb, ScheduleKind::LoopedBfs] {
                let config = config(kind, pp, vp, m).expect("valid");
                assert!(verify(lanes::lower(&config)).is_ok(), "{config:?}");
            }
        }
    }
}

/// Which orders sum weight gradients in the order of an unpipelined run: all but those that run backwards last first.
#[test]
fn weight_gradients_of_a_stage_come_in_ascending_microbatches() {
    for config in grid(6, 3, 14).iter().filter(|config| config.microbatches() > 1) {
        let order = Order::generate(config);
        let ascend = (0..config.placement().n_stages()).map(Stage).all(|stage| {
            let row = &order.rows()[config.placement().rank_of(stage).idx()];
            let of_stage = row.iter().filter(|work| work.stage == stage && gives_weights(work.kind));
            let microbatches: Vec<Microbatch> = of_stage.map(|work| work.microbatch).collect();
            microbatches.is_sorted()
        });
        assert_eq!(ascend, config.kind() != ScheduleKind::LoopedBfs, "{config:?}");
    }
}

fn gives_weights(kind: WorkKind) -> bool {
    matches!(kind, WorkKind::Backward | WorkKind::BackwardWeight)
}

#[test]
fn over_one_chunk_interleaved_zb_is_zb_h1_once_the_pipeline_is_full() {
    for (pp, m) in (1..=6).flat_map(|pp| (2 * pp - 1..=20).map(move |m| (pp, m))) {
        assert_eq!(
            order(ScheduleKind::InterleavedZb, pp, 1, m).rows(),
            order(ScheduleKind::ZbH1, pp, 1, m).rows(),
            "{pp} {m}"
        );
    }
}

/// torch's interleaved order is Megatron's with as many groups of one size as there can be.
#[test]
fn rounds_of_one_size_are_a_group_size() {
    let mut compared = 0;
    for (pp, m) in (2..=8).flat_map(|pp| (pp..=32).map(move |m| (pp, m))).filter(|(pp, m)| m % (m / pp) == 0) {
        let interleaved = ScheduleSpec { schedule: Some(ScheduleKind::Interleaved), ..ScheduleSpec::new(pp, 2, m) };
        let even = ScheduleConfig::new(&ScheduleSpec { allow_bubbles: true, ..interleaved.clone() }).expect("valid");
        let size = m / (m / pp);
        let uniform = ScheduleConfig::new(&ScheduleSpec { group_size: Some(size), ..interleaved }).expect("valid");
        assert_eq!(uniform.groups(), Groups::Uniform { size });
        assert_eq!(Order::generate(&even).rows(), Order::generate(&uniform).rows());
        compared += 1;
    }
    assert!(compared > 80, "{compared}");
}

#[test]
fn over_a_v_there_are_two_chunks_whether_or_not_they_are_asked_for() {
    for kind in [ScheduleKind::ZbV, ScheduleKind::DualPipeV] {
        let asked = config(kind, 3, 2, 6).expect("valid");
        assert_eq!(config(kind, 3, 1, 6).expect("valid"), asked);
        assert_eq!((asked.vp(), asked.placement()), (2, pp_schedule::Placement::v(3)));
        let text = config(kind, 3, 4, 6).expect_err("refused").to_string();
        assert!(text.contains("--vp is 4; use --vp 2") && text.contains("interleaved-zb"), "{text}");
        assert!(matches!(config(kind, 1 << 22, 1, 2), Err(ConfigError::TooLarge { vp: 2, .. })));
    }
    for (kind, instead) in [(ScheduleKind::ZbH1, "interleaved-zb"), (ScheduleKind::GPipe, "looped-bfs")] {
        let text = config(kind, 3, 2, 6).expect_err("refused").to_string();
        assert!(text.contains("--vp is 2; use --vp 1") && text.contains(instead), "{text}");
    }
}
