//! The `megatron` policy: its programs verify where they may run, and its view adds nothing but what it says.

use std::collections::HashSet;

use pp_schedule::lower::megatron::{
    self, Event, Issue, MegatronError, Op, OpKind, Options, Overlap, SendRelease, View,
};
use pp_schedule::verify::{Queues, Semantics, VerifyError, check, check_under};
use pp_schedule::{
    Chunk, Mark, Microbatch, Order, Rank, RankProgram, ScheduleConfig, ScheduleKind, ScheduleSpec, Step, Work,
};

fn configs(max_pp: u32, max_m: u32) -> Vec<ScheduleConfig> {
    let mut specs = Vec::new();
    for (pp, m) in (1..=max_pp).flat_map(|pp| (1..=max_m).map(move |m| (pp, m))) {
        specs.push(ScheduleSpec::new(pp, 1, m));
        for (vp, group) in (1..=3).flat_map(|vp| (pp..=m).map(move |group| (vp, group))) {
            let schedule = Some(ScheduleKind::Interleaved);
            specs.push(ScheduleSpec { schedule, group_size: Some(group), ..ScheduleSpec::new(pp, vp, m) });
        }
    }
    let configs = specs.iter().filter_map(|spec| ScheduleConfig::new(spec).ok());
    configs.flat_map(|config| [config, config.to_forward_only()]).collect()
}

fn options() -> Vec<Options> {
    let ways = [
        (Issue::Batched, Overlap::Off),
        (Issue::EvenOdd, Overlap::Off),
        (Issue::Ring, Overlap::Off),
        (Issue::EvenOdd, Overlap::Steady),
        (Issue::EvenOdd, Overlap::WarmupFlush),
    ];
    let mut all = Vec::new();
    for (issue, overlap) in ways {
        for (deallocate, sync_functions) in [(true, false), (false, false), (true, true)] {
            all.push(Options { issue, overlap, deallocate, sync_functions, ..Options::default() });
        }
        all.push(Options { issue, overlap, partial_checkpoints: Some(1), ..Options::default() });
    }
    all
}

#[test]
fn what_may_run_verifies_and_keeps_the_schedules_order() {
    let mut n_verified = 0;
    for config in configs(5, 9) {
        for options in options() {
            let program = match megatron::lower(&config, options) {
                Ok(program) => program,
                Err(MegatronError::BatchedOverTwoRanks) => {
                    assert!(config.pp() == 2 && options.issue != Issue::EvenOdd);
                    continue;
                }
                Err(MegatronError::OverlapNeedsInterleaved { .. }) => {
                    assert!(config.kind() != ScheduleKind::Interleaved);
                    continue;
                }
                Err(_) => {
                    assert_eq!(config.vp(), 1, "{config:?} {options:?}");
                    continue;
                }
            };
            check(&program).unwrap_or_else(|error| panic!("{config:?} {options:?}: {error}"));
            n_verified += 1;
            let order = Order::generate(&config);
            for (row, ranked) in order.rows().iter().zip(&program.ranks) {
                let run: Vec<Work> = ranked.computes.iter().map(|compute| compute.work).collect();
                assert_eq!(&run, row, "{config:?}");
            }
        }
    }
    assert!(n_verified > 2000, "{n_verified}");
}

/// Takes out of the events what the view may add, by rules of its own, and compares what is left with the program.
#[test]
fn without_what_the_view_adds_the_programs_actions_are_left() {
    for config in configs(4, 6) {
        for options in options() {
            for rank in (0..config.pp()).map(Rank) {
                let Ok((program, view)) = megatron::trace(&config, options, rank) else { continue };
                let left = actions_in(&view.events(&program), options, &config);
                assert_eq!(left, actions_of(&program, &view, &config), "{config:?} {options:?} rank {rank}");
            }
        }
    }
}

/// An action, told apart by what it acts on.
#[derive(Debug, PartialEq)]
enum Told {
    Compute(bool, Chunk, Microbatch),
    Post(Vec<Op>),
    Wait(Op),
    Free,
    Mark(Mark),
}

fn actions_in(events: &[Event], options: Options, config: &ScheduleConfig) -> Vec<Told> {
    let mut told = Vec::new();
    let mut sent: HashSet<(Chunk, Microbatch)> = HashSet::new();
    let dropped_anyway = config.kind() == ScheduleKind::OneFOneB && config.forward_only();
    for event in events {
        match event {
            Event::Forward(chunk, microbatch, _) => told.push(Told::Compute(true, *chunk, *microbatch)),
            Event::Backward(chunk, microbatch) => told.push(Told::Compute(false, *chunk, *microbatch)),
            Event::Call(_, ops, returns_early) => {
                let together = if options.issue == Issue::EvenOdd { 1 } else { 4 };
                told.extend(ops.chunks(together).map(|ops| Told::Post(ops.to_vec())));
                if !returns_early {
                    told.extend(ops.iter().copied().map(Told::Wait));
                }
                let outputs = ops.iter().filter(|op| op.kind == OpKind::SendNext);
                sent.extend(outputs.map(|op| (op.chunk, op.microbatch)));
            }
            Event::Wait(op) => told.push(Told::Wait(*op)),
            // The first free of an output that was sent; all others free nothing.
            Event::Free(Some(output)) if options.deallocate && !dropped_anyway && sent.remove(output) => {
                told.push(Told::Free);
            }
            Event::Free(_) | Event::Phase(_) => {}
            Event::Mark(mark) => told.push(Told::Mark(*mark)),
        }
    }
    told
}

fn actions_of(program: &RankProgram, view: &View, config: &ScheduleConfig) -> Vec<Told> {
    let op = |transfer: &pp_schedule::Transfer| view.op(transfer);
    let told = program.steps().map(|step| match step {
        Step::Compute(compute) => {
            let forward = compute.work.kind == pp_schedule::WorkKind::Forward;
            Told::Compute(forward, config.placement().chunk_of(compute.work.stage), compute.work.microbatch)
        }
        Step::Post(_, transfers) => Told::Post(transfers.iter().map(op).collect()),
        Step::Wait(_, transfer) => Told::Wait(op(transfer)),
        Step::Free(_) => Told::Free,
        Step::Mark(mark) => Told::Mark(mark),
    });
    told.collect()
}

#[test]
fn batches_over_two_ranks_mispair_on_one_channel() {
    let mut n_mispaired = 0;
    for config in configs(2, 9).iter().filter(|c| c.pp() == 2 && c.kind() == ScheduleKind::Interleaved && c.vp() > 1) {
        let error = megatron::lower(config, Options::default()).expect_err("refused");
        assert!(error.to_string().contains("an activation may be taken for a gradient"), "{error}");
        // Megatron does it all the same; the same programs over its channels show why it must not run.
        let ranks = (0..2).map(|rank| megatron::trace(config, Options::default(), Rank(rank)).expect("a trace").0);
        let even_odd = Options { issue: Issue::EvenOdd, ..Options::default() };
        let program = megatron::lower(config, even_odd).expect("runs");
        let batched = pp_schedule::Program { ranks: ranks.collect(), ..program };
        n_mispaired += u32::from(matches!(check(&batched), Err(VerifyError::Channels(_))));
    }
    assert!(n_mispaired > 10, "{n_mispaired}");
}

#[test]
fn freeing_before_the_send_is_waited_for_is_refused() {
    let config = ScheduleConfig::new(&ScheduleSpec::new(4, 2, 8)).expect("valid");
    let options = Options { issue: Issue::EvenOdd, overlap: Overlap::Steady, ..Options::default() };
    assert!(check(&megatron::lower(&config, options).expect("lowers")).is_ok());
    let old = Options { release: SendRelease::Unwaited, ..options };
    let error = check(&megatron::lower(&config, old).expect("lowers")).expect_err("refused").to_string();
    assert!(error.contains("free: send slot") && error.contains("in use by a transfer not waited for"), "{error}");
}

#[test]
fn options_that_do_not_go_together_are_refused() {
    let lower = |spec: ScheduleSpec, options: Options| {
        megatron::lower(&ScheduleConfig::new(&spec).expect("valid"), options).expect_err("refused").to_string()
    };
    let steady = Options { overlap: Overlap::Steady, ..Options::default() };
    assert!(lower(ScheduleSpec::new(4, 2, 8), steady).contains("issue them even-odd"));
    let even_odd = Options { issue: Issue::EvenOdd, ..steady };
    assert!(lower(ScheduleSpec::new(4, 1, 8), even_odd).contains("use interleaved"));
    let bubbles = ScheduleSpec { allow_bubbles: true, ..ScheduleSpec::new(4, 2, 5) };
    assert!(lower(bubbles, Options::default()).contains("use the lanes policy"));
    let gpipe = ScheduleSpec { schedule: Some(ScheduleKind::GPipe), ..ScheduleSpec::new(4, 1, 5) };
    assert!(lower(gpipe, Options::default()).contains("no schedule `gpipe`"));
    let one_chunk = ScheduleSpec { schedule: Some(ScheduleKind::Interleaved), ..ScheduleSpec::new(4, 1, 8) };
    assert!(lower(one_chunk, even_odd).contains("rank 3 has none with --vp 1"));
}

/// Issued one by one, warmup and flush overlap needs a queue per pair of ranks.
#[test]
fn serialised_on_one_communicator_the_flush_overlap_deadlocks() {
    let config = ScheduleConfig::new(&ScheduleSpec::new(4, 2, 4)).expect("valid");
    let verdict = |overlap, queues| {
        let options = Options { issue: Issue::EvenOdd, overlap, ..Options::default() };
        let program = megatron::lower(&config, options).expect("lowers");
        check_under(&program, Semantics { queues, capacity: 0 })
    };
    assert!(verdict(Overlap::WarmupFlush, Queues::AsStated).is_ok());
    assert!(verdict(Overlap::Steady, Queues::OnePerRank).is_ok());
    let error = verdict(Overlap::WarmupFlush, Queues::OnePerRank).expect_err("deadlock").to_string();
    assert!(error.contains("4 ranks stuck") && error.lines().count() == 5, "{error}");
}
