//! Spoilt programs against a brute-force reference: the verifier refuses exactly those that go wrong when run.
//!
//! The reference plays all ranks at once over channels without buffers and moves values about: whatever a computation
//! reads is the name of the computation that made it.

use std::collections::{HashMap, HashSet, VecDeque};

use pp_schedule::deps::{input_of, leaves_state, output_of, state_from};
use pp_schedule::lower::lanes;
use pp_schedule::{
    Action, Program, Role, ScheduleConfig, ScheduleKind, ScheduleSpec, Slot, Step, Work, WorkKind, verify,
};

/// What a slot holds in the reference.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Held {
    /// The tensor, or the state, that a computation made.
    Made(Work),
    /// Lent to a transfer that is not waited for.
    Lent,
}

#[derive(Default)]
struct RankState {
    at: usize,
    slots: HashMap<Slot, Held>,
    posted: HashSet<u32>,
    delivered: HashMap<u32, Option<Work>>,
    waited: HashSet<u32>,
}

/// Runs a program; `Err` says what went wrong.
fn reference(program: &Program) -> Result<(), String> {
    let mut ranks: Vec<RankState> = program.ranks.iter().map(|_| RankState::default()).collect();
    let mut sends: Vec<VecDeque<(usize, u32, Work)>> = vec![VecDeque::new(); program.channels.len()];
    let mut receives: Vec<VecDeque<(usize, u32)>> = vec![VecDeque::new(); program.channels.len()];
    let mut done: HashSet<Work> = HashSet::new();
    loop {
        let mut moved = false;
        for (rank, ranked) in program.ranks.iter().enumerate() {
            let state = &mut ranks[rank];
            let Some(step) = ranked.step(state.at) else { continue };
            match step {
                Step::Compute(compute) => {
                    if !done.insert(compute.work) {
                        return Err(format!("{} twice", compute.work));
                    }
                    run_compute(program, state, compute)?;
                }
                Step::Post(first, transfers) => {
                    for (index, transfer) in (first..).zip(transfers) {
                        if !state.posted.insert(index) {
                            return Err("posted twice".into());
                        }
                        let before = state.slots.insert(transfer.slot, Held::Lent);
                        match (transfer.role, before) {
                            (Role::Send, Some(Held::Made(work))) => {
                                sends[transfer.channel.idx()].push_back((rank, index, work))
                            }
                            (Role::Receive, None) => receives[transfer.channel.idx()].push_back((rank, index)),
                            (_, before) => return Err(format!("post of {transfer} over {before:?}")),
                        }
                    }
                }
                Step::Free(_) | Step::Mark(_) => return Err("lanes programs have neither frees nor marks".into()),
                Step::Wait(index, transfer) => {
                    if !state.posted.contains(&index) || state.waited.contains(&index) {
                        return Err("wait out of turn".into());
                    }
                    let Some(&work) = state.delivered.get(&index) else { continue };
                    state.waited.insert(index);
                    match work {
                        Some(work) => state.slots.insert(transfer.slot, Held::Made(work)),
                        None => state.slots.remove(&transfer.slot),
                    };
                }
            }
            ranks[rank].at += 1;
            moved = true;
        }
        for (channel, send) in sends.iter_mut().enumerate() {
            while let (Some(&(from, sent, work)), Some(&(to, received))) = (send.front(), receives[channel].front()) {
                let labels = (
                    program.ranks[from].transfers[sent as usize].message,
                    program.ranks[to].transfers[received as usize].message,
                );
                if labels.0 != labels.1 || output_of(work, program.extent.placement) != Some(labels.0) {
                    return Err(format!("{work} arrives as {}", labels.1));
                }
                ranks[from].delivered.insert(sent, None);
                ranks[to].delivered.insert(received, Some(work));
                send.pop_front();
                receives[channel].pop_front();
                moved = true;
            }
        }
        if !moved {
            break;
        }
    }
    at_end(program, &mut ranks, &done)
}

fn run_compute(program: &Program, state: &mut RankState, compute: &pp_schedule::Compute) -> Result<(), String> {
    let placement = program.extent.placement;
    let work = compute.work;
    let needs = input_of(work, placement);
    let read = compute.input.and_then(|slot| state.slots.remove(&slot));
    match (needs, read) {
        (None, None) => {}
        (Some(needed), Some(Held::Made(made))) if output_of(made, placement) == Some(needed) => {}
        (needed, read) => return Err(format!("{work} needs {needed:?} and reads {read:?}")),
    }
    if let Some(slot) = compute.output
        && state.slots.insert(slot, Held::Made(work)).is_some()
    {
        return Err(format!("{work} overwrites {slot}"));
    }
    let Some(slot) = compute.saved else { return Ok(()) };
    let kept = state.slots.remove(&slot);
    let expected = state_from(work.kind).map(|kind| Held::Made(Work { kind, ..work }));
    if kept != expected {
        return Err(format!("{work} finds {kept:?} in {slot}"));
    }
    if leaves_state(work.kind, program.extent.forward_only) {
        state.slots.insert(slot, Held::Made(work));
    }
    Ok(())
}

fn at_end(program: &Program, ranks: &mut [RankState], done: &HashSet<Work>) -> Result<(), String> {
    for (rank, (state, ranked)) in ranks.iter_mut().zip(&program.ranks).enumerate() {
        if state.at < ranked.actions.len() {
            return Err(format!("rank {rank} is stuck at step {}", state.at));
        }
        // Sends may be under way when the program ends, as long as they arrive.
        for (index, transfer) in (0..).zip(&ranked.transfers) {
            let over = state.waited.contains(&index)
                || (transfer.role == Role::Send && state.delivered.contains_key(&index) && {
                    state.slots.remove(&transfer.slot) == Some(Held::Lent)
                });
            if !over {
                return Err(format!("rank {rank} leaves {transfer} behind"));
            }
        }
        if !state.slots.is_empty() {
            return Err(format!("rank {rank} leaves a tensor behind"));
        }
    }
    let expected = program.extent.placement.n_stages() * program.extent.microbatches;
    let count = |kind| done.iter().filter(|work| work.kind == kind).count() as u32;
    if count(WorkKind::Forward) != expected || count(WorkKind::Backward) != expected {
        return Err("a computation is missing".into());
    }
    Ok(())
}

fn small_programs() -> Vec<Program> {
    let specs = [
        ScheduleSpec::new(1, 2, 2),
        ScheduleSpec::new(2, 1, 3),
        ScheduleSpec::new(2, 2, 4),
        ScheduleSpec { group_size: Some(4), ..ScheduleSpec::new(2, 2, 6) },
        ScheduleSpec::new(3, 1, 4),
        ScheduleSpec::new(3, 2, 3),
        ScheduleSpec { schedule: Some(ScheduleKind::GPipe), ..ScheduleSpec::new(3, 1, 3) },
    ];
    specs.iter().map(|spec| lanes::lower(&ScheduleConfig::new(spec).expect("valid"))).collect()
}

/// Whether the verdicts agree, and which it is.
fn judge(program: &Program, what: &str) -> bool {
    let (ours, truth) = (verify::check(program), reference(program));
    assert_eq!(ours.is_ok(), truth.is_ok(), "{what}: verifier {ours:?}, reference {truth:?}");
    ours.is_ok()
}

#[test]
fn spoilt_programs_are_judged_as_they_run() {
    let (mut accepted, mut refused) = (0, 0);
    for program in small_programs() {
        assert!(judge(&program, "unspoilt"));
        for rank in 0..program.ranks.len() {
            for at in 0..program.ranks[rank].actions.len() {
                for (name, spoil) in SPOILERS {
                    let mut spoilt = program.clone();
                    if !spoil(&mut spoilt.ranks[rank].actions, at) {
                        continue;
                    }
                    match judge(&spoilt, &format!("{name} at rank {rank}, step {at}")) {
                        true => accepted += 1,
                        false => refused += 1,
                    }
                }
            }
        }
    }
    // Posts on different channels may change places; nothing may be dropped or doubled.
    assert!(accepted > 20 && refused > 1000, "accepted {accepted}, refused {refused}");
}

type Spoiler = fn(&mut Vec<Action>, usize) -> bool;

const SPOILERS: [(&str, Spoiler); 3] = [
    ("swapped", |actions, at| {
        let swaps = at + 1 < actions.len();
        if swaps {
            actions.swap(at, at + 1);
        }
        swaps
    }),
    ("dropped", |actions, at| {
        actions.remove(at);
        true
    }),
    ("doubled", |actions, at| {
        actions.insert(at, actions[at]);
        true
    }),
];

#[test]
fn too_little_prefetch_is_seen_to_deadlock() {
    // With one send in flight and one receive ahead, groups larger than pp starve the ring; the verifier says so.
    let config =
        ScheduleConfig::new(&ScheduleSpec { group_size: Some(8), ..ScheduleSpec::new(2, 2, 8) }).expect("valid");
    let order = pp_schedule::Order::generate(&config);
    let tight = lanes::Options { receives_ahead: 1, ring_receives_ahead: 1, sends_in_flight: 1 };
    let error = verify::check(&lanes::lower_order(&order, tight)).expect_err("starved").to_string();
    assert!(error.starts_with("deadlock with unbuffered channels, 2 ranks stuck:"), "{error}");
    assert!(error.contains("rank 0 is stuck at step") && error.contains("waiting for rank 1"), "{error}");
    assert!(reference(&lanes::lower_order(&order, tight)).is_err());
    assert!(verify::check(&lanes::lower_order(&order, lanes::Options::for_config(&config))).is_ok());
}
