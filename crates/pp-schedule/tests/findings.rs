//! The numbers that docs/verification.md gives, counted.

use pp_schedule::lower::megatron::{self, Issue, Options, Overlap};
use pp_schedule::lower::{lanes, stagger};
use pp_schedule::verify::{Queues, Semantics, VerifyError, check, check_under};
use pp_schedule::{Program, Rank, ScheduleConfig, ScheduleKind, ScheduleSpec};

/// Ranks 2 to 8, chunks 1 to 4, microbatches 1 to 16, the default group size, training.
fn configs() -> Vec<ScheduleConfig> {
    let sizes = (2..=8).flat_map(|pp| (1..=4).flat_map(move |vp| (1..=16).map(move |m| (pp, vp, m))));
    sizes.filter_map(|(pp, vp, m)| ScheduleConfig::new(&ScheduleSpec::new(pp, vp, m)).ok()).collect()
}

fn deadlocks(program: &Program, queues: Queues, capacity: u32) -> bool {
    match check_under(program, Semantics { queues, capacity }) {
        Ok(()) => false,
        Err(VerifyError::Deadlock(_)) => true,
        Err(error) => panic!("{error}"),
    }
}

/// How many deadlock, of how many.
fn count(programs: impl Iterator<Item = Program>, queues: Queues) -> (usize, usize) {
    let verdicts: Vec<bool> = programs.map(|program| deadlocks(&program, queues, 0)).collect();
    (verdicts.iter().filter(|deadlock| **deadlock).count(), verdicts.len())
}

#[test]
fn megatrons_exchanges_on_one_communicator() {
    let configs = configs();
    let on_one = |issue, overlap| {
        let options = Options { issue, overlap, ..Options::default() };
        let programs = configs.iter().filter_map(|config| megatron::lower(config, options).ok());
        count(programs, Queues::OnePerRank)
    };
    assert_eq!(on_one(Issue::Batched, Overlap::Off), (0, 166));
    assert_eq!(on_one(Issue::EvenOdd, Overlap::Off), (0, 190));
    assert_eq!(on_one(Issue::EvenOdd, Overlap::Steady), (0, 78));
    assert_eq!(on_one(Issue::EvenOdd, Overlap::WarmupFlush), (48, 78));
}

/// Receives hold each other up, so no buffer helps.
#[test]
fn buffers_do_not_help_the_flush_overlap() {
    let config = ScheduleConfig::new(&ScheduleSpec::new(4, 2, 4)).expect("valid");
    let options = Options { issue: Issue::EvenOdd, overlap: Overlap::WarmupFlush, ..Options::default() };
    let program = megatron::lower(&config, options).expect("lowers");
    for capacity in [0, 1, 4, 1000] {
        assert!(deadlocks(&program, Queues::OnePerRank, capacity), "{capacity}");
        assert!(!deadlocks(&program, Queues::AsStated, capacity), "{capacity}");
    }
}

/// Over two ranks, in batches on one channel from each rank to the other.
#[test]
fn batches_over_two_ranks_take_activations_for_gradients() {
    let (mut n_mispaired, mut n_all) = (0, 0);
    for (vp, m) in (2..=4).flat_map(|vp| (2..=24).map(move |m| (vp, m))) {
        for group in 2..=m {
            let schedule = Some(ScheduleKind::Interleaved);
            let spec = ScheduleSpec { schedule, group_size: Some(group), ..ScheduleSpec::new(2, vp, m) };
            let Ok(config) = ScheduleConfig::new(&spec) else { continue };
            for config in [config, config.to_forward_only()] {
                let batched =
                    (0..2).map(|rank| megatron::trace(&config, Options::default(), Rank(rank)).expect("a trace").0);
                let even_odd = Options { issue: Issue::EvenOdd, ..Options::default() };
                let program = megatron::lower(&config, even_odd).expect("runs");
                let verdict = check(&Program { ranks: batched.collect(), ..program });
                if config.forward_only() {
                    assert!(verdict.is_ok(), "one direction cannot be taken for the other");
                    continue;
                }
                n_all += 1;
                n_mispaired += usize::from(matches!(verdict, Err(VerifyError::Channels(_))));
            }
        }
    }
    assert_eq!((n_mispaired, n_all), (666, 669));
}

#[test]
fn the_queues_that_lanes_and_stagger_need() {
    let configs = configs();
    let of = |chunks: fn(u32) -> bool, queues| {
        count(configs.iter().filter(|config| chunks(config.vp())).map(lanes::lower), queues)
    };
    assert_eq!(of(|_| true, Queues::OnePerRank), (190, 190));
    assert_eq!(of(|vp| vp == 1, Queues::OnePerDirection), (60, 112));
    assert_eq!(of(|vp| vp > 1, Queues::OnePerDirection), (78, 78));
    assert_eq!(of(|_| true, Queues::FourLanes), (0, 190));
    let staggered = configs.iter().filter_map(|config| stagger::lower(config).ok());
    assert_eq!(count(staggered, Queues::OnePerRank), (0, 84));
}
