//! The search against a plain loop over all there is.

use pp_schedule::lower::lanes;
use pp_schedule::plan::{Batch, Candidate, Machine, Part, Plan, Recompute, Request, Stages, Way, measured, plan};
use pp_schedule::simulate::{Report, Timeline};
use pp_schedule::{Order, Rank, ScheduleConfig, ScheduleKind, ScheduleSpec, Shape, SlotClass};

use super::{everything, uneven};

/// A candidate found without the planner: name, bytes of the fullest rank without message buffers, ticks.
type Plain = (String, u64, u64);

fn name(spec: &ScheduleSpec, recompute: Recompute) -> String {
    format!("{spec:?} {recompute:?}")
}

/// Every spec that is a schedule, every cut, simulated.
fn all(request: &Request, way: &Way) -> Vec<Plain> {
    let m = way.microbatches.clone().unwrap();
    let n_layers = request.model.layers.len() as u32;
    let mut found = Vec::new();
    for kind in ScheduleKind::ALL {
        for vp in 1..=if way.pp == 1 { 1 } else { n_layers / way.pp } {
            // The same orders as gpipe and zb-h1; and two chunks are what a V has.
            if vp == 1 && matches!(kind, ScheduleKind::LoopedBfs | ScheduleKind::InterleavedZb) {
                continue;
            }
            if vp == 2 && way.pp > 1 && kind.shape() == Shape::V {
                continue;
            }
            let plain = ScheduleSpec { schedule: Some(kind), ..ScheduleSpec::new(way.pp, vp, m) };
            let grouped = (1..=m).map(|size| ScheduleSpec { group_size: Some(size), ..plain.clone() });
            let mut specs: Vec<ScheduleSpec> = grouped.filter(|spec| ScheduleConfig::new(spec).is_ok()).collect();
            let bubbles = ScheduleSpec { allow_bubbles: true, ..plain.clone() };
            let takes_groups =
                format!("{:?}", ScheduleConfig::new(&ScheduleSpec { group_size: Some(1), ..plain.clone() }));
            if takes_groups.contains("NotForThisSchedule") {
                specs = vec![if ScheduleConfig::new(&plain).is_ok() { plain } else { bubbles }];
            } else if specs.is_empty() {
                specs = vec![bubbles];
            }
            for spec in specs {
                let Ok(config) = ScheduleConfig::new(&spec) else { continue };
                let spec = ScheduleSpec { vp: config.vp(), ..spec };
                for recompute in Recompute::ALL {
                    let placement = config.placement();
                    let Ok(stages) = Stages::balanced(&request.model, recompute, placement, &request.machine) else {
                        continue;
                    };
                    let timeline = Timeline::of_order(&Order::generate(&config), &stages.costs()).unwrap();
                    let report = Report::new(&timeline, |stage| stages.bytes(stage));
                    let rank_bytes = report.ranks.iter().map(|rank| {
                        let loads = || placement.stages_of(rank.rank).map(|stage| &stages.loads[stage.idx()]);
                        let weights: u64 = loads().map(|load| load.weights.on_replica(way.dp)).sum();
                        weights + rank.peak_bytes + loads().map(|load| load.working).max().unwrap()
                    });
                    let reduce = |rank: Rank| {
                        let bytes = placement.stages_of(rank).map(|s| stages.loads[s.idx()].weights.gradient).sum();
                        request.machine.reduce(bytes, way.dp)
                    };
                    let step = report.ranks.iter().map(|rank| rank.end + reduce(rank.rank)).max().unwrap();
                    found.push((name(&spec, recompute), rank_bytes.max().unwrap(), step));
                }
            }
        }
    }
    found
}

fn requests() -> Vec<Request> {
    let link = Machine {
        latency: 9,
        bandwidth: Some("5GB/s".parse().unwrap()),
        replica_bandwidth: Some("200GB/s".parse().unwrap()),
        ..Machine::default()
    };
    let mut requests = Vec::new();
    for (pp, dp, m, layers) in [(1, 1, 4, 3), (2, 2, 5, 6), (3, 1, 7, 9), (4, 2, 8, 8), (4, 1, 2, 5)] {
        for machine in [Machine::default(), link] {
            let mut model = uneven(layers);
            model.message *= u64::from(machine != Machine::default());
            requests.push(everything(model, vec![Way::new(pp, dp, Batch::Microbatches(m))], machine));
        }
    }
    requests
}

#[test]
fn the_winner_is_the_fastest_of_all() {
    for request in requests() {
        let plain = all(&request, &request.ways[0]);
        let found = plan(&request).unwrap();
        assert_eq!(found.n_candidates, plain.len(), "{:?}", request.ways);
        let fastest = plain.iter().map(|(_, _, step)| *step).min().unwrap();
        assert_eq!(found.fits[0].step, fastest, "{:?}", request.ways);
        for choice in &found.fits {
            let name = name(&choice.candidate.spec, choice.candidate.recompute);
            let (_, bytes, step) = plain.iter().find(|(other, ..)| *other == name).expect("also found plainly");
            assert_eq!(choice.step, *step, "{name}");
            assert!(choice.candidate.least_step <= choice.step, "{name}: {}", choice.candidate.least_step);
            let memory = choice.memory;
            assert!(memory.total() - memory.messages <= *bytes && *bytes <= memory.total(), "{name}");
        }
        // With every limit that makes a difference.
        let mut limits: Vec<u64> = found.fits.iter().map(|choice| choice.memory.total()).collect();
        limits.sort_unstable();
        for limit in limits.into_iter().step_by(9) {
            let mut limited = request.clone();
            limited.machine.memory = Some(limit);
            let fitting = found.fits.iter().filter(|choice| choice.memory.total() <= limit);
            assert_eq!(plan(&limited).unwrap().fits[0].step, fitting.map(|choice| choice.step).min().unwrap());
        }
    }
}

/// What is skipped by bounds never changes the families asked for.
#[test]
fn bounds_skip_nothing_that_ranks() {
    for request in requests() {
        let best = |plan: &Plan, top: usize| {
            let mut seen = std::collections::HashSet::new();
            let best = plan.fits.iter().filter(|choice| seen.insert(choice.candidate.family())).take(top);
            best.map(|choice| choice.step).collect::<Vec<_>>()
        };
        let whole = plan(&request).unwrap();
        for top in [1, 3] {
            let bounded = plan(&Request { top, ..request.clone() }).unwrap();
            assert_eq!(best(&bounded, top), best(&whole, top));
            assert_eq!(bounded.n_candidates, whole.n_candidates);
        }
    }
    let large = everything(uneven(32), vec![Way::new(4, 1, Batch::Microbatches(32))], Machine::default());
    let bounded = plan(&Request { top: 3, ..large.clone() }).unwrap();
    assert!(bounded.n_bounded > bounded.n_candidates / 2, "{} of {}", bounded.n_bounded, bounded.n_candidates);
    assert_eq!(bounded.fits[0].step, plan(&large).unwrap().fits[0].step);
}

#[test]
fn more_memory_is_never_slower() {
    for mut request in requests() {
        let mut last = u64::MAX;
        for memory in (10_000..120_000).step_by(10_000) {
            request.machine.memory = Some(memory);
            let found = plan(&request).unwrap();
            let step = found.fits.first().map_or(u64::MAX, |choice| choice.step);
            assert!(step <= last, "{memory}");
            assert!(found.fits.iter().all(|choice| choice.memory.total() <= memory));
            last = step;
        }
        assert_ne!(last, u64::MAX);
    }
}

/// The message buffers that are counted are those that the program has.
#[test]
fn message_buffers_are_those_of_the_program() {
    let request = everything(uneven(12), vec![Way::new(3, 1, Batch::Microbatches(9))], Machine::default());
    let mut equal = 0;
    for choice in plan(&request).unwrap().fits {
        let program = lanes::lower(&choice.candidate.config);
        for memory in choice.candidate.memory(request.model.message) {
            let rank = &program.ranks[memory.rank.idx()];
            let buffers = (rank.n_slots(SlotClass::Receive) + rank.n_slots(SlotClass::Send)) as u64;
            let counted = memory.messages / request.model.message;
            assert!(buffers <= counted, "{:?} rank {}: {buffers}, {counted}", choice.candidate.config, memory.rank);
            equal += usize::from(buffers == counted);
        }
    }
    assert!(equal > 50, "{equal}");
}

/// Layers that were measured on stages cost on other stages what they cost there.
#[test]
fn measured_costs_are_those_of_the_stages() {
    let layer = Part { forward: 100, backward_input: 120, backward_weight: 80, ..Part::default() };
    let end = |forward| Part { forward, backward_input: forward, backward_weight: 2 * forward, ..Part::default() };
    let mut model = uneven(12);
    for one in &mut model.layers {
        one.part = layer;
    }
    (model.embedding, model.head) = (end(30), end(150));
    let config = ScheduleConfig::new(&ScheduleSpec::new(4, 1, 8)).unwrap();
    let stages = Stages::balanced(&model, Recompute::None, config.placement(), &Machine::default()).unwrap();
    let told = measured(&stages.costs(), 4, &stages.layers).unwrap();
    assert!(told.layers.iter().all(|layer_told| layer_told.part == layer));
    assert_eq!((told.embedding, told.head), (model.embedding, model.head));
    // Of two stages nothing tells layers and ends apart.
    let config = ScheduleConfig::new(&ScheduleSpec::new(2, 1, 8)).unwrap();
    let stages = Stages::balanced(&model, Recompute::None, config.placement(), &Machine::default()).unwrap();
    let told = measured(&stages.costs(), 2, &stages.layers).unwrap();
    assert_eq!(told.head, Part::default());
    let forward: u64 = told.layers.iter().map(|layer| layer.part.forward).sum();
    // But for what does not divide.
    assert!((12 * 100 + 30 + 150 - forward) < 12, "{forward}");
    let error = measured(&stages.costs(), 4, &stages.layers).unwrap_err().to_string();
    assert!(error.contains("over 4 stages") && error.contains("cut for 2"), "{error}");
}

/// What the winner's picture says is what it was ranked by.
#[test]
fn pictures_are_of_what_was_ranked() {
    let request = everything(uneven(8), vec![Way::new(4, 1, Batch::Microbatches(8))], Machine::default());
    let found = plan(&request).unwrap();
    let winner: &Candidate = &found.fits[0].candidate;
    let simulated = winner.simulate().unwrap();
    assert_eq!(simulated.timeline.makespan(), found.fits[0].makespan);
    let saved: Vec<u64> = winner.memory(request.model.message).iter().map(|memory| memory.saved).collect();
    assert_eq!(saved, simulated.report.ranks.iter().map(|rank| rank.peak_bytes).collect::<Vec<_>>());
}

/// Played out as programs, candidates take no less time, and are ranked by it.
#[test]
fn the_best_are_played_out() {
    let machine = Machine { latency: 40, bandwidth: Some("0.1GB/s".parse().unwrap()), ..Machine::default() };
    let request = everything(uneven(12), vec![Way::new(3, 1, Batch::Microbatches(9))], machine);
    let by_order = plan(&request).unwrap();
    let played = plan(&Request { play: 8, ..request.clone() }).unwrap();
    assert_eq!(played.fits.iter().filter(|choice| choice.played).count(), 8);
    let (first, rest) = played.fits.split_at(8);
    assert!(first.is_sorted_by_key(|choice| choice.step));
    assert_eq!(rest, &by_order.fits[8..]);
    let mut longer = 0;
    for choice in first {
        let before = by_order.fits.iter().find(|other| other.candidate == choice.candidate).unwrap();
        assert!(choice.step >= before.step);
        longer += usize::from(choice.step > before.step);
    }
    assert!(longer > 0);
}
