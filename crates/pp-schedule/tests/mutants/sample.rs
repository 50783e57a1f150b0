//! What is spoilt: programs of every policy, and seeded choices among what could be done to them.

use pp_schedule::format::csv::Grid;
use pp_schedule::lower::megatron::{self, Issue, Overlap};
use pp_schedule::lower::written::Wires;
use pp_schedule::lower::{lanes, stagger};
use pp_schedule::verify::{Queues, Semantics};
use pp_schedule::{Program, ScheduleConfig, ScheduleKind, ScheduleSpec};

/// A small seeded generator (splitmix64): the same choices on every machine.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is small; 0 if it is 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % (bound.max(1) as u64)) as usize
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

pub(crate) const SEMANTICS: [Semantics; 15] = {
    const fn of(queues: Queues, capacity: u32) -> Semantics {
        Semantics { queues, capacity }
    }
    [
        of(Queues::AsStated, 0),
        of(Queues::AsStated, 1),
        of(Queues::AsStated, 3),
        of(Queues::OnePerRank, 0),
        of(Queues::OnePerRank, 1),
        of(Queues::OnePerRank, 3),
        of(Queues::OnePerDirection, 0),
        of(Queues::OnePerDirection, 1),
        of(Queues::OnePerDirection, 3),
        of(Queues::FourLanes, 0),
        of(Queues::FourLanes, 1),
        of(Queues::FourLanes, 3),
        of(Queues::OnePerChannel, 0),
        of(Queues::OnePerChannel, 1),
        of(Queues::OnePerChannel, 3),
    ]
};

/// A program by its name.
pub(crate) type Named = (String, Program);

fn config(spec: ScheduleSpec) -> ScheduleConfig {
    ScheduleConfig::new(&spec).expect("valid")
}

pub(crate) fn lanes_programs() -> Vec<Named> {
    let one_chunk = Some(ScheduleKind::Interleaved);
    let specs = [
        ScheduleSpec::new(1, 2, 2),
        ScheduleSpec::new(2, 1, 3),
        ScheduleSpec::new(2, 2, 4),
        ScheduleSpec { group_size: Some(4), ..ScheduleSpec::new(2, 2, 6) },
        ScheduleSpec::new(3, 1, 4),
        ScheduleSpec::new(3, 2, 3),
        ScheduleSpec { allow_bubbles: true, schedule: one_chunk, ..ScheduleSpec::new(3, 2, 2) },
        ScheduleSpec { forward_only: true, ..ScheduleSpec::new(3, 2, 4) },
        ScheduleSpec { schedule: Some(ScheduleKind::GPipe), ..ScheduleSpec::new(3, 1, 3) },
        ScheduleSpec { schedule: Some(ScheduleKind::ZbH1), ..ScheduleSpec::new(3, 1, 3) },
        ScheduleSpec { schedule: Some(ScheduleKind::ZbV), ..ScheduleSpec::new(2, 2, 2) },
    ];
    let named = |spec: ScheduleSpec| (format!("lanes {spec:?}"), lanes::lower(&config(spec)));
    specs.into_iter().filter(|spec| ScheduleConfig::new(spec).is_ok()).map(named).collect()
}

pub(crate) fn stagger_programs() -> Vec<Named> {
    [(2, 3), (3, 3), (4, 5)]
        .into_iter()
        .map(|(pp, m)| {
            (format!("stagger {pp} {m}"), stagger::lower(&config(ScheduleSpec::new(pp, 1, m))).expect("m >= pp"))
        })
        .collect()
}

/// With grouped posts, frees, marks, and queues of several channels.
pub(crate) fn megatron_programs() -> Vec<Named> {
    let ways = [
        (Issue::Batched, Overlap::Off),
        (Issue::EvenOdd, Overlap::Off),
        (Issue::Ring, Overlap::Off),
        (Issue::EvenOdd, Overlap::Steady),
        (Issue::EvenOdd, Overlap::WarmupFlush),
    ];
    let specs = [
        ScheduleSpec::new(2, 2, 4),
        ScheduleSpec::new(3, 1, 4),
        ScheduleSpec::new(3, 2, 3),
        ScheduleSpec::new(4, 2, 4),
        ScheduleSpec { forward_only: true, ..ScheduleSpec::new(3, 2, 3) },
    ];
    let mut programs = Vec::new();
    for spec in specs {
        for (issue, overlap) in ways {
            for (deallocate, sync_functions) in [(true, false), (false, true)] {
                let options =
                    megatron::Options { issue, overlap, deallocate, sync_functions, ..megatron::Options::default() };
                if let Ok(program) = megatron::lower(&config(spec.clone()), options) {
                    programs.push((format!("megatron {spec:?} {options:?}"), program));
                }
            }
        }
    }
    programs
}

/// Orders with split backwards and written transfers, as torch has them.
pub(crate) fn written_programs() -> Vec<Named> {
    [
        "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0I0,0RECV_B1,0I1,0W0,0W1\n\
         1RECV_F0,1F0,1I0,1SEND_B0,1RECV_F1,1F1,1I1,1SEND_B1,1W0,1W1\n",
        "0F0,0SEND_F0,2RECV_F0,2F0,2SEND_F0,2RECV_B0,2B0,2SEND_B0,0RECV_B0,0B0\n\
         1RECV_F0,1F0,1SEND_F0,3RECV_F0,3F0,3B0,3SEND_B0,1RECV_B0,1B0,1SEND_B0\n",
    ]
    .into_iter()
    .flat_map(|text| [Wires::PerPair, Wires::PerPairAndDirection].map(|wires| (text, wires)))
    .map(|(text, wires)| {
        let grid = Grid::parse(text).expect("a grid");
        (format!("written {wires:?} {text}"), grid.to_program(wires).expect("a program").program)
    })
    .collect()
}
