//! Why candidates lose, and what is said when all do.

use pp_schedule::plan::{Batch, Layer, Machine, Model, Part, PlanError, Recompute, Request, Rule, Way, Weights, plan};
use pp_schedule::{ConfigError, LayoutError, ScheduleKind};

use super::{everything, uneven};

fn request(pp: u32, m: u32, layers: u64) -> Request {
    everything(uneven(layers), vec![Way::new(pp, 1, Batch::Microbatches(m))], Machine::default())
}

#[test]
fn the_least_memory_is_exact() {
    let mut request = request(3, 6, 9);
    request.machine.memory = Some(1);
    let found = plan(&request).unwrap();
    assert!(found.fits.is_empty());
    assert_eq!(found.n_misfits, found.n_candidates);
    let least = found.misfits[0].memory.total();
    assert!(found.misfits.iter().all(|misfit| misfit.memory.total() >= least && misfit.step.is_none()));
    request.machine.memory = Some(least - 1);
    assert!(plan(&request).unwrap().fits.is_empty());
    request.machine.memory = Some(least);
    let found = plan(&request).unwrap();
    assert!(found.fits.iter().all(|choice| choice.memory.total() == least) && !found.fits.is_empty());
}

/// GPipe keeps all microbatches, 1F1B as many as there are stages behind: two, and then one.
#[test]
fn memory_is_counted_by_rank_and_part() {
    let part = Part {
        forward: 10,
        backward_input: 10,
        backward_weight: 10,
        activation: 100,
        deferred: 50,
        weights: Weights { replicated: 7, sharded: 0, gradient: 0 },
    };
    let model = Model { layers: vec![Layer { part, input: 1, core: None }; 2], message: 1, ..Model::default() };
    let mut request = everything(model, vec![Way::new(2, 1, Batch::Microbatches(5))], Machine::default());
    (request.kinds, request.recompute) = (vec![ScheduleKind::GPipe, ScheduleKind::OneFOneB], vec![Recompute::None]);
    // A channel to the neighbour and one from it, two buffers each.
    request.machine.memory = Some(7 + 200 + 4);
    let found = plan(&request).unwrap();
    let [winner] = &found.fits[..] else { panic!("one fits: {:?}", found.fits) };
    assert_eq!(winner.candidate.config.kind(), ScheduleKind::OneFOneB);
    let memory = winner.memory;
    assert_eq!((memory.rank.0, memory.weights, memory.saved, memory.working, memory.messages), (0, 7, 200, 0, 4));
    let [misfit] = &found.misfits[..] else { panic!("one does not: {:?}", found.misfits) };
    assert_eq!(misfit.candidate.config.kind(), ScheduleKind::GPipe);
    assert_eq!((misfit.memory.saved, misfit.memory.total() - request.machine.memory.unwrap()), (500, 300));
}

/// Misfits that would beat the winner say how fast they would be.
#[test]
fn what_memory_costs_is_told() {
    let mut request = request(4, 8, 16);
    let free = plan(&request).unwrap();
    request.machine.memory = Some(free.fits[0].memory.total() - 1);
    let found = plan(&request).unwrap();
    let winner = found.fits[0].step;
    assert!(winner > free.fits[0].step);
    let faster: Vec<u64> = found.misfits.iter().filter_map(|misfit| misfit.step).collect();
    assert!(faster.contains(&free.fits[0].step), "{faster:?}");
    let family = free.fits[0].candidate.family();
    assert!(found.misfits.iter().any(|misfit| misfit.candidate.family() == family));
}

/// Each family is told of once: it fits, or does not, or is slower, or breaks a rule.
#[test]
fn every_family_has_its_reason() {
    let mut request = request(4, 12, 12);
    request.machine.memory = Some(50_000);
    request.top = 2;
    let found = plan(&request).unwrap();
    assert!(!found.slower.is_empty() && !found.misfits.is_empty());
    let whole = plan(&Request { machine: Machine::default(), top: usize::MAX, ..request.clone() }).unwrap();
    let fits = |family| found.fits.iter().any(|choice| choice.candidate.family() == family);
    let misfits = |family| found.misfits.iter().filter(|misfit| misfit.candidate.family() == family).count();
    let slower = |family| found.slower.iter().filter(|candidate| candidate.family() == family).count();
    for choice in &whole.fits {
        let family = choice.candidate.family();
        let told = (fits(family), misfits(family), slower(family));
        assert!(matches!(told, (true, 0 | 1, 0) | (false, 1, 0) | (false, 0, 1)), "{family:?}: {told:?}");
    }
    let worst = found.fits[1].step;
    assert!(found.slower.iter().all(|candidate| candidate.least_step >= worst.min(found.fits[0].step)));
}

#[test]
fn rules_are_named() {
    let found = plan(&request(4, 6, 8)).unwrap();
    let rule = |kind, vp| {
        let refused = found.refused.iter().find(|refused| (refused.kind, refused.vp) == (Some(kind), Some(vp)));
        refused.map(|refused| refused.rule.clone())
    };
    assert_eq!(rule(ScheduleKind::NoPipelining, 1), Some(Rule::Config(ConfigError::NoPipeliningOnRanks { pp: 4 })));
    assert!(matches!(rule(ScheduleKind::OneFOneB, 2), Some(Rule::Config(ConfigError::OneChunkOnly { vp: 2, .. }))));
    // Groups of 4 and 6 leave 2 and nothing: only 6 is a group.
    let sizes: Vec<u32> = found.fits.iter().filter_map(|choice| choice.candidate.spec.group_size).collect();
    assert!(!sizes.is_empty() && sizes.iter().all(|size| *size == 6), "{sizes:?}");
    // More chunks than layers were not asked for; when they are, the rule is the layers'.
    let asked = Request { vps: Some(vec![1, 3]), ..request(4, 6, 8) };
    let refused = plan(&asked).unwrap().refused;
    let layers = refused.iter().filter(|refused| matches!(refused.rule, Rule::Layout(_))).collect::<Vec<_>>();
    assert_eq!(layers.len(), 1, "{layers:?}");
    assert!(layers[0].rule.to_string().contains("--num-layers 8 cannot give each of 12 stages"));
}

#[test]
fn what_cannot_be_tried_is_an_error_that_names_the_rule() {
    let error = plan(&request(8, 4, 6)).unwrap_err();
    let rule = LayoutError::FewerLayersThanStages { n_layers: 6, n_stages: 8 };
    assert!(error.to_string().contains(&rule.to_string()), "{error}");
    let zero = plan(&request(4, 0, 8)).unwrap_err().to_string();
    assert!(zero.contains("--microbatches is 0"), "{zero}");
    assert_eq!(plan(&request(2, 4, 0)).unwrap_err(), PlanError::NoLayers);
    let nothing = Request { kinds: Vec::new(), ..request(2, 4, 4) };
    assert!(plan(&nothing).unwrap_err().to_string().contains("no schedule is left; known: 1f1b"));
    let mut selective = Request { recompute: vec![Recompute::Selective], ..request(2, 4, 4) };
    selective.model.layers[1].core = None;
    assert!(matches!(plan(&selective).unwrap_err(), PlanError::Nothing { .. }));
    let free = Model { layers: vec![Layer::default(); 4], ..Model::default() };
    assert_eq!(plan(&Request { model: free, ..request(2, 4, 4) }).unwrap_err(), PlanError::NoCosts);
    let mut dear = request(2, 4, 4);
    dear.model.layers[0].part.forward = 1 << 60;
    assert!(matches!(plan(&dear).unwrap_err(), PlanError::Costs { what: "nanoseconds" }));
}

#[test]
fn devices_are_divided_every_way() {
    let batch = Batch::Global { global: 24, micro: 2 };
    let ways: Vec<(u32, u32, Option<u32>)> =
        Way::all(8, batch).into_iter().map(|way| (way.pp, way.dp, way.microbatches.ok())).collect();
    assert_eq!(ways, [(1, 8, None), (2, 4, Some(3)), (4, 2, Some(6)), (8, 1, Some(12))]);
    let why = Way::new(1, 8, batch).microbatches.unwrap_err();
    assert!(
        why.contains("--global-batch-size 24") && why.contains("nearest that works: --global-batch-size 16"),
        "{why}"
    );
    let found = plan(&everything(uneven(8), Way::all(8, batch), Machine::default())).unwrap();
    assert!(found.refused.iter().any(|refused| matches!(&refused.rule, Rule::Batch(text) if *text == why)));
    let mut ranks: Vec<u32> = found.fits.iter().map(|choice| choice.candidate.spec.pp).collect();
    ranks.sort_unstable();
    ranks.dedup();
    assert_eq!(ranks, [2, 4, 8]);
}
