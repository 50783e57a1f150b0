//! What queues are needed: the naive lowering, over sixty configurations.
//!
//! Every receive stands just before the computation that needs it, every send just after the one that made it. Whether
//! that runs depends on which transfers of a rank wait for each other, and on whether the rank waits for its sends.

use pp_schedule::deps::{input_of, output_of};
use pp_schedule::lower::lanes;
use pp_schedule::verify::{Queues, Semantics, VerifyError, check_under};
use pp_schedule::{
    Action, ChannelId, Message, Order, Program, Rank, RankProgram, Role, ScheduleConfig, ScheduleKind, ScheduleSpec,
    Slot, SlotClass, Transfer,
};

use crate::reference;
use crate::sample::Random;

/// `pp` 2 to 8, `vp` 1 to 4, as many microbatches as ranks, twice and four times as many.
fn configurations() -> Vec<ScheduleConfig> {
    let mut configs = Vec::new();
    for (pp, vp) in [2, 3, 4, 6, 8].into_iter().flat_map(|pp| (1..=4).map(move |vp| (pp, vp))) {
        for rounds in [1, 2, 4] {
            let schedule = if vp == 1 { ScheduleKind::OneFOneB } else { ScheduleKind::Interleaved };
            let spec = ScheduleSpec { schedule: Some(schedule), ..ScheduleSpec::new(pp, vp, rounds * pp) };
            configs.push(ScheduleConfig::new(&spec).expect("valid"));
        }
    }
    configs
}

/// The naive program, on the channels of `lanes`: one per source, destination and direction.
fn naive(config: &ScheduleConfig, waits_for_sends: bool) -> Program {
    let lanes = lanes::lower(config);
    let order = Order::generate(config);
    let row = |rank: u32| naive_row(&lanes, &order, Rank(rank), waits_for_sends);
    let ranks = (0..config.pp()).map(row).collect();
    Program { ranks, ..lanes }
}

fn naive_row(lanes: &Program, order: &Order, rank: Rank, waits_for_sends: bool) -> RankProgram {
    let placement = lanes.extent.placement;
    let mut program = RankProgram { rank, actions: Vec::new(), computes: Vec::new(), transfers: Vec::new() };
    let mut n_sends = 0;
    // The computations keep the slots that `lanes` gave them, but for the buffers of messages.
    for (work, like) in order.rows()[rank.idx()].iter().zip(&lanes.ranks[rank.idx()].computes) {
        assert_eq!(*work, like.work);
        let mut compute = *like;
        if let Some((message, source)) =
            input_of(*work, placement).map(|message| (message, placement.rank_of(message.made_by())))
            && source != rank
        {
            let slot = Slot::new(SlotClass::Receive, 0);
            let index = post(&mut program, lanes, Role::Receive, message, (source, rank), slot);
            program.actions.push(Action::Wait(index));
            compute.input = Some(slot);
        }
        program.actions.push(Action::Compute(program.computes.len() as u32));
        let sent = output_of(*work, placement).map(|message| (message, placement.rank_of(message.stage)));
        if let Some((message, destination)) = sent.filter(|(_, destination)| *destination != rank) {
            let slot = Slot::new(SlotClass::Send, n_sends);
            n_sends += 1;
            compute.output = Some(slot);
            let index = post(&mut program, lanes, Role::Send, message, (rank, destination), slot);
            if waits_for_sends {
                program.actions.push(Action::Wait(index));
            }
        }
        program.computes.push(compute);
    }
    program
}

/// Posts a transfer alone; gives its number.
fn post(
    program: &mut RankProgram,
    lanes: &Program,
    role: Role,
    message: Message,
    (source, destination): (Rank, Rank),
    slot: Slot,
) -> u32 {
    let fits = |channel: &pp_schedule::Channel| {
        (channel.source, channel.destination) == (source, destination) && channel.carries.includes(message.direction)
    };
    let channel = ChannelId(lanes.channels.iter().position(fits).expect("a channel") as u32);
    let peer = if role == Role::Send { destination } else { source };
    let index = program.transfers.len() as u32;
    let releases = role == Role::Send;
    program.transfers.push(Transfer { role, message, channel, peer, slot, releases, ends_post: true });
    program.actions.push(Action::Post(index));
    index
}

#[test]
fn naive_transfers_need_four_lanes() {
    let mut random = Random(7);
    let mut deadlocks = |waits_for_sends: bool, queues: Queues, with: &dyn Fn(u32) -> bool| {
        let configs: Vec<ScheduleConfig> = configurations().into_iter().filter(|config| with(config.vp())).collect();
        let stuck = configs.iter().filter(|config| {
            let program = naive(config, waits_for_sends);
            let semantics = Semantics { queues, capacity: 0 };
            let verdict = check_under(&program, semantics);
            if config.pp() <= 4 {
                assert_eq!(verdict.is_ok(), reference::run(&program, semantics, &mut random).is_ok());
            }
            match verdict {
                Ok(()) => false,
                Err(VerifyError::Deadlock(_)) => true,
                Err(error) => panic!("{config:?}: {error}"),
            }
        });
        (stuck.count(), configs.len())
    };
    let (all, one_chunk, chunks) = (|_: u32| true, |vp: u32| vp == 1, |vp: u32| vp > 1);
    // One queue per rank: all of them deadlock.
    assert_eq!(deadlocks(false, Queues::OnePerRank, &all), (60, 60));
    // Two rings: enough without a virtual pipeline, and never with one.
    assert_eq!(deadlocks(false, Queues::OnePerDirection, &one_chunk), (0, 15));
    assert_eq!(deadlocks(false, Queues::OnePerDirection, &chunks), (45, 45));
    // Four lanes: none.
    assert_eq!(deadlocks(false, Queues::FourLanes, &all), (0, 60));
    assert_eq!(deadlocks(false, Queues::OnePerChannel, &all), (0, 60));
    // A rank that waits for each send before it goes on needs more than lanes can give.
    assert_eq!(deadlocks(true, Queues::OnePerChannel, &all), (60, 60));
}
