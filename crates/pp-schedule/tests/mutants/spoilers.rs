//! What is done to a program: one small change, of every kind that a wrong generator or a bad wire could make.

use pp_schedule::{
    Action, ChannelId, Chunk, Direction, Mark, Microbatch, Program, Rank, Role, Slot, SlotClass, Stage, WorkKind,
};

use crate::sample::Random;

/// A kind of change; `None` when it cannot be made here.
pub(crate) type Spoiler = fn(&mut Program, usize, &mut Random) -> Option<()>;

pub(crate) const SPOILERS: [(&str, Spoiler); 19] = [
    ("two neighbours swapped", |program, rank, random| {
        let actions = &mut program.ranks[rank].actions;
        let at = random.below(actions.len().checked_sub(1)?);
        actions.swap(at, at + 1);
        Some(())
    }),
    ("any two swapped", |program, rank, random| {
        let actions = &mut program.ranks[rank].actions;
        let (one, other) = (random.below(actions.len()), random.below(actions.len()));
        actions.swap(one, other);
        Some(())
    }),
    ("moved", |program, rank, random| {
        let actions = &mut program.ranks[rank].actions;
        let action = actions.remove(random.below(actions.len()));
        actions.insert(random.below(actions.len() + 1), action);
        Some(())
    }),
    ("dropped", |program, rank, random| {
        let actions = &mut program.ranks[rank].actions;
        actions.remove(random.below(actions.len()));
        Some(())
    }),
    ("doubled", |program, rank, random| {
        let actions = &mut program.ranks[rank].actions;
        let action = actions[random.below(actions.len())];
        actions.insert(random.below(actions.len() + 1), action);
        Some(())
    }),
    ("reference to another", |program, rank, random| {
        let actions = &mut program.ranks[rank].actions;
        let at = random.below(actions.len());
        let by = 1 + random.below(3) as u32;
        actions[at] = match actions[at] {
            Action::Compute(index) => Action::Compute(index + by),
            Action::Post(index) => Action::Post(index + by),
            Action::Wait(index) => Action::Wait(index + by),
            Action::Free(slot) => Action::Free(Slot::new(slot.class(), slot.idx() as u32 + by)),
            Action::Mark(_) => Action::Mark(Mark::SyncGradients(Chunk(random.below(4) as u32))),
        };
        Some(())
    }),
    ("wait turned into post", |program, rank, random| {
        let action = pick(&mut program.ranks[rank].actions, random)?;
        let Action::Wait(index) = *action else { return None };
        *action = Action::Post(index);
        Some(())
    }),
    ("wrong peer", |program, rank, random| {
        let n_ranks = program.ranks.len();
        let transfer = pick(&mut program.ranks[rank].transfers, random)?;
        transfer.peer = Rank(random.below(n_ranks) as u32);
        Some(())
    }),
    ("wrong role", |program, rank, random| {
        let transfer = pick(&mut program.ranks[rank].transfers, random)?;
        transfer.role = match transfer.role {
            Role::Send => Role::Receive,
            Role::Receive => Role::Send,
        };
        Some(())
    }),
    ("message of another microbatch", |program, rank, random| {
        let microbatches = program.extent.microbatches as usize;
        pick(&mut program.ranks[rank].transfers, random)?.message.microbatch =
            Microbatch(random.below(microbatches + 1) as u32);
        Some(())
    }),
    ("message of another stage", |program, rank, random| {
        let n_stages = program.extent.placement.n_stages() as usize;
        pick(&mut program.ranks[rank].transfers, random)?.message.stage = Stage(random.below(n_stages + 1) as u32);
        Some(())
    }),
    ("message of the other direction", |program, rank, random| {
        let message = &mut pick(&mut program.ranks[rank].transfers, random)?.message;
        message.direction = match message.direction {
            Direction::Forward => Direction::Backward,
            Direction::Backward => Direction::Forward,
        };
        Some(())
    }),
    ("wrong channel", |program, rank, random| {
        let n_channels = program.channels.len();
        let transfer = pick(&mut program.ranks[rank].transfers, random)?;
        transfer.channel = ChannelId(random.below(n_channels + 1) as u32);
        Some(())
    }),
    ("two messages changed over", |program, rank, random| {
        // Both ends still agree with the computations; only the order on the channel differs.
        let transfers = &mut program.ranks[rank].transfers;
        let (one, other) = (random.below(transfers.len()), random.below(transfers.len()));
        let alike = transfers.get(one)?.role == transfers.get(other)?.role;
        (alike && one != other).then(|| transfers.swap(one, other))
    }),
    ("wrong buffer", |program, rank, random| {
        let transfer = pick(&mut program.ranks[rank].transfers, random)?;
        transfer.slot = other_slot(transfer.slot, random);
        Some(())
    }),
    ("release or grouping changed", |program, rank, random| {
        let transfer = pick(&mut program.ranks[rank].transfers, random)?;
        if random.below(2) == 0 {
            transfer.releases = !transfer.releases;
        } else {
            transfer.ends_post = !transfer.ends_post;
        }
        Some(())
    }),
    ("wrong computation", |program, rank, random| {
        let (n_stages, microbatches) = (program.extent.placement.n_stages() as usize, program.extent.microbatches);
        let work = &mut pick(&mut program.ranks[rank].computes, random)?.work;
        match random.below(3) {
            0 => work.stage = Stage(random.below(n_stages + 1) as u32),
            1 => work.microbatch = Microbatch(random.below(microbatches as usize + 1) as u32),
            _ => work.kind = WorkKind::ALL[random.below(4)],
        }
        Some(())
    }),
    ("wrong slot of a computation", |program, rank, random| {
        let compute = pick(&mut program.ranks[rank].computes, random)?;
        let slot = match random.below(3) {
            0 => &mut compute.input,
            1 => &mut compute.output,
            _ => &mut compute.saved,
        };
        *slot = match *slot {
            Some(_) if random.below(3) == 0 => None,
            Some(slot) => Some(other_slot(slot, random)),
            None => Some(Slot::new(SlotClass::ALL[random.below(4)], random.below(3) as u32)),
        };
        Some(())
    }),
    ("wrong queue", |program, _, random| {
        let n_channels = program.channels.len();
        pick(&mut program.channels, random)?.queue = random.below(n_channels) as u32;
        Some(())
    }),
];

fn pick<'a, T>(items: &'a mut [T], random: &mut Random) -> Option<&'a mut T> {
    let index = random.below(items.len());
    items.get_mut(index)
}

fn other_slot(slot: Slot, random: &mut Random) -> Slot {
    match random.below(4) {
        0 => Slot::new(SlotClass::ALL[random.below(4)], slot.idx() as u32),
        _ => Slot::new(slot.class(), random.below(slot.idx() + 3) as u32),
    }
}
