//! The fast way and the thorough way give the same verdict, word for word.

use super::lanes::Lanes;
use super::{Queues, Semantics, VerifyError, across_ranks, check_under, rank};
use crate::config::{ScheduleConfig, ScheduleKind, ScheduleSpec};
use crate::ids::{ChannelId, Microbatch, Rank, Stage};
use crate::lower::{lanes, megatron, stagger};
use crate::program::{Program, RankProgram, Slot, SlotClass};

fn thorough(program: &Program, semantics: Semantics) -> Result<(), VerifyError> {
    (0..program.ranks.len() as u32).try_for_each(|rank| rank::explain(program, Rank(rank)))?;
    across_ranks(program, semantics)
}

fn proved_the_short_way(program: &Program, semantics: Semantics) -> bool {
    let mut lanes = Lanes::new(program, semantics);
    let fits = (0..program.ranks.len() as u32).all(|rank| rank::fits(program, Rank(rank), &mut lanes));
    fits && lanes.proves(semantics.capacity)
}

fn configs() -> Vec<ScheduleConfig> {
    let specs = [
        ScheduleSpec::new(1, 2, 2),
        ScheduleSpec::new(2, 1, 3),
        ScheduleSpec::new(2, 2, 4),
        ScheduleSpec { group_size: Some(3), ..ScheduleSpec::new(2, 2, 5) },
        ScheduleSpec::new(3, 2, 3),
        ScheduleSpec { schedule: Some(ScheduleKind::GPipe), ..ScheduleSpec::new(3, 1, 3) },
        ScheduleSpec { schedule: Some(ScheduleKind::ZbV), ..ScheduleSpec::new(2, 2, 3) },
    ];
    let configs = specs.iter().map(|spec| ScheduleConfig::new(spec).expect("valid"));
    configs.flat_map(|config| [config, config.to_forward_only()]).collect()
}

fn programs() -> Vec<Program> {
    let mut programs: Vec<Program> = configs().iter().map(lanes::lower).collect();
    programs.extend(configs().iter().filter_map(|config| megatron::lower(config, megatron::Options::default()).ok()));
    programs.extend(configs().iter().filter_map(|config| stagger::lower(config).ok()));
    programs
}

const ALL_SEMANTICS: [Semantics; 5] = [
    Semantics { queues: Queues::AsStated, capacity: 0 },
    Semantics { queues: Queues::AsStated, capacity: 1 },
    Semantics { queues: Queues::FourLanes, capacity: 0 },
    Semantics { queues: Queues::OnePerRank, capacity: 0 },
    Semantics { queues: Queues::OnePerChannel, capacity: 2 },
];

fn verdicts_agree(program: &Program, what: &str) -> bool {
    for semantics in ALL_SEMANTICS {
        assert_eq!(check_under(program, semantics), thorough(program, semantics), "{what} {semantics:?}");
    }
    check_under(program, Semantics::default()).is_ok()
}

/// Spoils a rank at one place of its actions or tables; false past the end.
type Spoiler = fn(&mut RankProgram, usize) -> bool;

const SPOILERS: [(&str, Spoiler); 11] = [
    ("swapped", |rank, at| {
        at + 1 < rank.actions.len() && {
            rank.actions.swap(at, at + 1);
            true
        }
    }),
    ("dropped", |rank, at| {
        at < rank.actions.len() && {
            rank.actions.remove(at);
            true
        }
    }),
    ("doubled", |rank, at| {
        at < rank.actions.len() && {
            rank.actions.insert(at, rank.actions[at]);
            true
        }
    }),
    ("microbatch", |rank, at| {
        spoil(&mut rank.transfers, at, |t| t.message.microbatch = Microbatch(t.message.microbatch.0 ^ 1))
    }),
    ("stage", |rank, at| spoil(&mut rank.transfers, at, |t| t.message.stage = Stage(t.message.stage.0 ^ 1))),
    ("channel", |rank, at| spoil(&mut rank.transfers, at, |t| t.channel = ChannelId(t.channel.0 ^ 1))),
    ("peer", |rank, at| spoil(&mut rank.transfers, at, |t| t.peer = Rank(t.peer.0 + 1))),
    ("grouped", |rank, at| spoil(&mut rank.transfers, at, |t| t.ends_post = false)),
    ("kept", |rank, at| spoil(&mut rank.transfers, at, |t| t.releases = false)),
    ("slot", |rank, at| spoil(&mut rank.computes, at, |c| c.saved = Some(Slot::new(SlotClass::Saved, 7)))),
    ("work", |rank, at| spoil(&mut rank.computes, at, |c| c.work.microbatch = Microbatch(c.work.microbatch.0 + 1))),
];

fn spoil<T>(table: &mut [T], at: usize, change: impl FnOnce(&mut T)) -> bool {
    table.get_mut(at).map(change).is_some()
}

#[test]
fn what_the_lanes_policy_makes_is_proved_the_short_way() {
    for config in configs() {
        let program = lanes::lower(&config);
        assert!(proved_the_short_way(&program, Semantics::default()), "{config:?}");
        assert!(proved_the_short_way(&program, Semantics { capacity: 1, ..Semantics::default() }), "{config:?}");
    }
}

#[test]
fn the_fast_way_says_what_the_thorough_way_says() {
    let (mut accepted, mut refused) = (0, 0);
    for program in programs() {
        verdicts_agree(&program, "unspoilt");
        for (rank, (name, spoiler)) in (0..program.ranks.len()).flat_map(|rank| SPOILERS.map(|spoiler| (rank, spoiler)))
        {
            for at in 0.. {
                let mut spoilt = program.clone();
                if !spoiler(&mut spoilt.ranks[rank], at) {
                    break;
                }
                match verdicts_agree(&spoilt, &format!("{name} on rank {rank} at {at}")) {
                    true => accepted += 1,
                    false => refused += 1,
                }
            }
        }
    }
    assert!(accepted > 100 && refused > 3000, "accepted {accepted}, refused {refused}");
}
