//! Programs, whole and spoilt, against a brute-force reference: the verifier refuses exactly those that go wrong when run.

mod naive;
mod reference;
mod sample;
mod spoilers;

use pp_schedule::lower::lanes;
use pp_schedule::verify::{Semantics, check_under, explain, places};
use pp_schedule::{Action, Program, ScheduleConfig, ScheduleSpec, VerifyError, verify};

use reference::Wrong;
use sample::{Named, Random, SEMANTICS, lanes_programs, megatron_programs, stagger_programs, written_programs};
use spoilers::SPOILERS;

/// Whether the verdicts agree, and which it is.
fn judge(program: &Program, semantics: Semantics, random: &mut Random, what: &str) -> bool {
    let (ours, truth) = (check_under(program, semantics), reference::run(program, semantics, random));
    assert_eq!(ours.is_ok(), truth.is_ok(), "{what}, {semantics:?}: verifier {ours:?}, reference {truth:?}");
    if let Err(error) = &ours {
        assert!(explain(program, error).starts_with(&error.to_string()), "an explanation starts with the error");
        for (rank, step) in places(program, error) {
            assert!(step <= program.ranks[rank.idx()].actions.len(), "{what}: {error}");
        }
    }
    // A deadlock is found only when all else is in order; then so many ranks are stuck in any run.
    if let Err(VerifyError::Deadlock(deadlock)) = &ours {
        let Err(Wrong::Stuck(n_stuck)) = truth else {
            panic!("{what}, {semantics:?}: {deadlock}, reference {truth:?}")
        };
        assert_eq!(deadlock.n_blocked, n_stuck.max(1), "{what}, {semantics:?}: {deadlock}");
        assert!(!deadlock.cycle.is_empty(), "{what}, {semantics:?}");
    }
    ours.is_ok()
}

fn all_programs() -> Vec<Named> {
    [lanes_programs(), stagger_programs(), megatron_programs(), written_programs()].concat()
}

/// The verifier's one run agrees with runs of any timing; more buffers never do harm, nor do finer queues.
#[test]
fn whole_programs_are_judged_as_they_run_under_any_semantics() {
    let mut random = Random(1);
    let (mut passed, mut stuck) = (0, 0);
    for (name, program) in all_programs() {
        assert!(verify::check(&program).is_ok(), "{name}");
        let mut verdicts = Vec::new();
        for semantics in SEMANTICS {
            let verdict = judge(&program, semantics, &mut random, &name);
            assert_eq!(judge(&program, semantics, &mut random, &name), verdict, "another timing");
            verdicts.push(verdict);
            if verdict {
                passed += 1;
            } else {
                stuck += 1;
            }
        }
        for by_capacity in verdicts.chunks(3) {
            assert!(by_capacity.is_sorted(), "{name}: {by_capacity:?}");
        }
        // From one queue per rank to one per channel, each splits the queues of the one before.
        for capacity in 0..3 {
            let finer: Vec<bool> = (1..5).map(|queues| verdicts[3 * queues + capacity]).collect();
            assert!(finer.is_sorted(), "{name}: {finer:?}");
        }
    }
    println!("whole programs: {passed} pass, {stuck} are stuck");
    assert!(passed > 400 && stuck > 50, "{passed} pass, {stuck} are stuck");
}

/// Spoils each program in `times` ways of every kind; gives how many still run, and how many do not. `SOAK=n` in the
/// environment spoils it `n` times as often, with other choices.
fn spoil(programs: &[Named], seed: u64, times: usize) -> (u32, u32) {
    let soak: usize = std::env::var("SOAK").ok().and_then(|soak| soak.parse().ok()).unwrap_or(1);
    let (mut random, times) = (Random(seed + 1000 * (soak as u64 - 1)), soak * times);
    let (mut accepted, mut refused) = (0, 0);
    for (name, program) in programs {
        for (kind, spoiler) in SPOILERS {
            for _ in 0..times {
                let mut spoilt = program.clone();
                let rank = random.below(program.ranks.len());
                if spoiler(&mut spoilt, rank, &mut random).is_none() {
                    continue;
                }
                // Mostly as the program states; every third time under other semantics.
                let semantics = SEMANTICS[if random.below(3) > 0 { 0 } else { random.below(SEMANTICS.len()) }];
                match judge(&spoilt, semantics, &mut random, &format!("{kind} on rank {rank} of {name}")) {
                    true => accepted += 1,
                    false => refused += 1,
                }
            }
        }
    }
    println!("spoilt programs: {accepted} still run, {refused} do not");
    (accepted, refused)
}

#[test]
fn spoilt_lanes_programs_are_judged_as_they_run() {
    let (accepted, refused) = spoil(&lanes_programs(), 2, 60);
    assert!(accepted > 100 && refused > 5000, "accepted {accepted}, refused {refused}");
}

#[test]
fn spoilt_stagger_and_written_programs_are_judged_as_they_run() {
    let (accepted, refused) = spoil(&[stagger_programs(), written_programs()].concat(), 3, 60);
    assert!(accepted > 100 && refused > 4000, "accepted {accepted}, refused {refused}");
}

#[test]
fn spoilt_megatron_programs_are_judged_as_they_run() {
    let (accepted, refused) = spoil(&megatron_programs(), 4, 20);
    assert!(accepted > 100 && refused > 5000, "accepted {accepted}, refused {refused}");
}

/// Not sampled but exhausted: every action of small programs dropped, doubled, and swapped with the next.
#[test]
fn every_single_action_counts() {
    let mut random = Random(5);
    let (mut accepted, mut refused) = (0, 0);
    for (name, program) in lanes_programs().iter().chain(&stagger_programs()).chain(&megatron_programs()[..4]) {
        for rank in 0..program.ranks.len() {
            for at in 0..program.ranks[rank].actions.len() {
                let edits: [fn(&mut Vec<Action>, usize); 3] = [
                    |actions, at| {
                        let next = (at + 1).min(actions.len() - 1);
                        actions.swap(at, next);
                    },
                    |actions, at| {
                        actions.remove(at);
                    },
                    |actions, at| actions.insert(at, actions[at]),
                ];
                for edit in edits {
                    let mut spoilt = program.clone();
                    edit(&mut spoilt.ranks[rank].actions, at);
                    match judge(&spoilt, Semantics::default(), &mut random, &format!("{name}, rank {rank}, step {at}"))
                    {
                        true => accepted += 1,
                        false => refused += 1,
                    }
                }
            }
        }
    }
    println!("every action: {accepted} still run, {refused} do not");
    assert!(accepted > 20 && refused > 2000, "accepted {accepted}, refused {refused}");
}

#[test]
fn too_little_prefetch_is_seen_to_deadlock() {
    // With one send in flight and one receive ahead, groups larger than pp starve the ring; the verifier says so.
    let config =
        ScheduleConfig::new(&ScheduleSpec { group_size: Some(8), ..ScheduleSpec::new(2, 2, 8) }).expect("valid");
    let order = pp_schedule::Order::generate(&config);
    let tight = lanes::Options { receives_ahead: 1, ring_receives_ahead: 1, sends_in_flight: 1 };
    let program = lanes::lower_order(&order, tight);
    let error = verify::check(&program).expect_err("starved").to_string();
    assert!(error.starts_with("deadlock with unbuffered channels, 2 ranks stuck:"), "{error}");
    assert!(error.contains("rank 0 is stuck at step") && error.contains("waiting for rank 1"), "{error}");
    assert!(!judge(&program, Semantics::default(), &mut Random(6), "tight"));
    assert!(verify::check(&lanes::lower_order(&order, lanes::Options::for_config(&config))).is_ok());
}
