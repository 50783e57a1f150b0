//! The two clocks: against each other, and against a slow and plain event loop.

use std::collections::HashMap;

use pp_schedule::lower::lanes::{self, Options};
use pp_schedule::simulate::{Costs, Link, Sends, StageCosts, Timeline};
use pp_schedule::{Message, Order, Program, ScheduleConfig, ScheduleKind, ScheduleSpec, Step, Work, verify};

/// Everything posted as far ahead as there is anything to post.
const UNLIMITED: Options = Options { receives_ahead: 9999, ring_receives_ahead: 9999, sends_in_flight: 9999 };

fn configs() -> Vec<ScheduleConfig> {
    let mut configs = Vec::new();
    for (pp, vp, m) in [(1, 1, 3), (2, 1, 4), (3, 1, 5), (2, 2, 4), (3, 2, 6), (2, 3, 4), (4, 2, 4)] {
        for schedule in ScheduleKind::ALL {
            for forward_only in [false, true] {
                let spec = ScheduleSpec { schedule: Some(schedule), forward_only, ..ScheduleSpec::new(pp, vp, m) };
                configs.extend(ScheduleConfig::new(&spec));
            }
        }
    }
    configs
}

/// Uneven costs, free and dear communication.
fn costs(n_stages: u32) -> Vec<Costs> {
    let stage = |s: u64| StageCosts {
        forward: 7 + s * 3 % 5,
        backward: 13 + s * 5 % 7,
        backward_input: 6 + s % 3,
        backward_weight: 5 + s % 4,
    };
    let uneven = Costs::per_stage((0..u64::from(n_stages)).map(stage).collect());
    let links = (0..u64::from(n_stages.max(1) - 1)).map(|s| Link { latency: s % 4, transfer: 1 + s % 3 }).collect();
    vec![
        Costs::UNIT,
        uneven.clone(),
        uneven.clone().with_link(Link { latency: 4, transfer: 0 }),
        uneven.clone().with_link(Link { latency: 1, transfer: 25 }),
        uneven.with_links(links),
    ]
}

#[test]
fn with_everything_posted_ahead_both_clocks_agree() {
    let mut compared = 0;
    for config in configs() {
        let order = Order::generate(&config);
        let program = verify(lanes::lower_order(&order, UNLIMITED)).expect("verifies");
        for costs in costs(config.placement().n_stages()) {
            let by_order = Timeline::of_order(&order, &costs).expect("runs");
            let by_program = Timeline::of_program(program.program(), &costs, Sends::Eager).expect("runs");
            // Where channels take time, messages may queue up, so a program is no faster.
            assert!(by_program.makespan() >= by_order.makespan());
            if costs_no_channel_time(&costs, config.placement().n_stages()) {
                assert_eq!(by_order.rows(), by_program.rows(), "{config:?} {costs:?}");
                compared += 1;
            }
        }
    }
    assert!(compared > 60, "{compared}");
}

fn costs_no_channel_time(costs: &Costs, n_stages: u32) -> bool {
    (1..n_stages).all(|stage| {
        let message = pp_schedule::Message {
            direction: pp_schedule::Direction::Forward,
            stage: pp_schedule::Stage(stage),
            microbatch: pp_schedule::Microbatch(0),
        };
        costs.link(message).transfer == 0
    })
}

#[test]
fn programs_run_as_in_an_event_loop() {
    for config in configs() {
        for ahead in [1, 2, 9999] {
            let options = Options { receives_ahead: ahead, ring_receives_ahead: ahead.max(8), sends_in_flight: ahead };
            let program = verify(lanes::lower_order(&Order::generate(&config), options)).expect("verifies");
            for costs in costs(config.placement().n_stages()) {
                for sends in [Sends::Eager, Sends::Rendezvous] {
                    let ours = Timeline::of_program(program.program(), &costs, sends).expect("runs");
                    let plain = event_loop(program.program(), &costs, sends);
                    for (row, plain) in ours.rows().iter().zip(&plain) {
                        let row: Vec<(Work, u64, u64)> = row.iter().map(|s| (s.work, s.start, s.end)).collect();
                        assert_eq!(&row, plain, "{config:?} {options:?} {costs:?} {sends:?}");
                    }
                }
            }
        }
    }
}

/// What runs when, found tick by tick: everything is looked at again in each until nothing changes. It knows one
/// transfer per post and one queue per channel end, which is what `lanes` makes.
fn event_loop(program: &Program, costs: &Costs, sends: Sends) -> Vec<Vec<(Work, u64, u64)>> {
    #[derive(Clone, Copy, Default)]
    struct Side {
        posted: Option<u64>,
        done: Option<u64>,
    }
    let n_ranks = program.ranks.len();
    // By channel and place in it: the sending and the receiving side, and the number of each rank's transfer.
    let mut sides: HashMap<(u32, usize), [Side; 2]> = HashMap::new();
    let mut places: Vec<HashMap<u32, (u32, usize)>> = vec![HashMap::new(); n_ranks];
    for (rank, program) in program.ranks.iter().enumerate() {
        let mut counts: HashMap<(u32, bool), usize> = HashMap::new();
        for step in program.steps() {
            if let Step::Post(first, [transfer]) = step {
                let count = counts.entry((transfer.channel.0, transfer.role == pp_schedule::Role::Send)).or_default();
                places[rank].insert(first, (transfer.channel.0, *count));
                *count += 1;
            }
        }
    }
    let message = |rank: usize, number: u32| program.ranks[rank].transfers[number as usize].message;
    let of_rank = |(rank, places): (usize, &HashMap<u32, (u32, usize)>)| {
        places.iter().map(|(number, place)| (*place, message(rank, *number))).collect::<Vec<_>>()
    };
    let messages: HashMap<(u32, usize), Message> = places.iter().enumerate().flat_map(of_rank).collect();
    let mut rows = vec![Vec::new(); n_ranks];
    let mut at = vec![0; n_ranks];
    let mut busy_until = vec![0_u64; n_ranks];
    let mut tick = 0;
    while at.iter().zip(&program.ranks).any(|(at, rank)| *at < rank.actions.len()) {
        assert!(tick < 100_000, "stuck");
        let mut changed = true;
        while changed {
            changed = false;
            for rank in 0..n_ranks {
                while busy_until[rank] <= tick
                    && let Some(step) = program.ranks[rank].step(at[rank])
                {
                    match step {
                        Step::Compute(compute) => {
                            busy_until[rank] = tick + costs.of(compute.work);
                            rows[rank].push((compute.work, tick, busy_until[rank]));
                        }
                        Step::Post(first, [transfer]) => {
                            let side = usize::from(transfer.role == pp_schedule::Role::Receive);
                            sides.entry(places[rank][&first]).or_default()[side].posted = Some(tick);
                        }
                        Step::Wait(number, transfer) => {
                            let side = usize::from(transfer.role == pp_schedule::Role::Receive);
                            match sides.get(&places[rank][&number]).and_then(|sides| sides[side].done) {
                                Some(done) if done <= tick => {}
                                _ => break,
                            }
                        }
                        Step::Post(..) | Step::Free(_) | Step::Mark(_) => unreachable!("lanes makes none"),
                    }
                    at[rank] += 1;
                    changed = true;
                }
            }
            for channel in 0..program.channels.len() as u32 {
                // When the sending end, and the receiving end, was done with the message before.
                let mut free = [0_u64, 0];
                for place in 0.. {
                    let Some(&[send, receive]) = sides.get(&(channel, place)) else { break };
                    let link = costs.link(messages[&(channel, place)]);
                    let (left, there) = match (sends, send.posted, receive.posted) {
                        (Sends::Eager, Some(posted), received) => {
                            let left = posted.max(free[0]) + link.transfer;
                            (left, received.map(|received| (left + link.latency).max(received).max(free[1])))
                        }
                        (Sends::Rendezvous, Some(sent), Some(received)) => {
                            let start = sent.max(received).max(free[0]).max(free[1]);
                            (start + link.transfer, Some(start + link.transfer + link.latency))
                        }
                        _ => break,
                    };
                    let send_done = if sends == Sends::Eager { Some(left) } else { there };
                    let now = [Side { done: send_done, ..send }, Side { done: there, ..receive }];
                    changed |= send.done.is_none() && send_done.is_some() || receive.done.is_none() && there.is_some();
                    sides.insert((channel, place), now);
                    match sends {
                        Sends::Eager => free = [left, there.unwrap_or(u64::MAX / 4)],
                        Sends::Rendezvous => free = [left, left],
                    }
                }
            }
        }
        // Until something ends, every tick would look like this one.
        let ends = sides.values().flatten().filter_map(|side| side.done).chain(busy_until.iter().copied());
        tick = ends.filter(|end| *end > tick).min().unwrap_or(tick + 1);
    }
    rows
}
