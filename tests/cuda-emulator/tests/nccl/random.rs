//! Random programs of groups, against a model that runs them one after the other.

use std::collections::VecDeque;

use cuda_emulator::driver;
use cuda_emulator::nccl::kinds::{DataType, ReduceOp};

use crate::rank::{Rank, ranks};

const N_RANKS: usize = 3;
const N_GROUPS: usize = 12;
const COUNT: usize = 4;

/// What a rank calls in a group; every operation has memory of its own.
#[derive(Clone, Copy, Debug)]
enum Step {
    Send { peer: usize },
    Receive { peer: usize },
    Sum,
}

/// Numbers that look random, the same for a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((x ^ (x >> 31)) % n as u64) as usize
    }
}

/// For each group, for each rank: its steps. Every send's receive is in the same group, in any place of it.
fn program(seed: u64) -> Vec<Vec<Vec<Step>>> {
    let mut random = Random(seed);
    let group = |random: &mut Random| {
        let mut steps = vec![Vec::new(); N_RANKS];
        for _ in 0..random.below(6) {
            let (from, to) = (random.below(N_RANKS), random.below(N_RANKS));
            let at = random.below(steps[from].len() + 1);
            steps[from].insert(at, Step::Send { peer: to });
            let at = random.below(steps[to].len() + 1);
            steps[to].insert(at, Step::Receive { peer: from });
        }
        for _ in 0..random.below(3) {
            for steps in &mut steps {
                let at = random.below(steps.len() + 1);
                steps.insert(at, Step::Sum);
            }
        }
        steps
    };
    (0..N_GROUPS).map(|_| group(&mut random)).collect()
}

/// What an operation's memory holds at first.
fn content(seed: u64, group: usize, rank: usize, at: usize) -> Vec<u8> {
    let mut random = Random(seed ^ (group as u64) << 32 ^ (rank as u64) << 16 ^ at as u64);
    (0..COUNT).map(|_| random.below(256) as u8).collect()
}

/// What each operation's memory holds in the end.
fn model(seed: u64) -> Vec<Vec<Vec<Vec<u8>>>> {
    let run = |(group, steps): (usize, Vec<Vec<Step>>)| {
        let mut sent = vec![vec![VecDeque::new(); N_RANKS]; N_RANKS];
        let mut sums: Vec<Vec<u8>> = Vec::new();
        for (rank, steps) in steps.iter().enumerate() {
            let mut n_sums = 0;
            for (at, step) in steps.iter().enumerate() {
                let content = content(seed, group, rank, at);
                match step {
                    Step::Send { peer } => sent[rank][*peer].push_back(content),
                    Step::Receive { .. } => {}
                    Step::Sum => {
                        if sums.len() == n_sums {
                            sums.push(vec![0; COUNT]);
                        }
                        sums[n_sums].iter_mut().zip(content).for_each(|(sum, x)| *sum = sum.wrapping_add(x));
                        n_sums += 1;
                    }
                }
            }
        }
        let ends = steps.iter().enumerate().map(|(rank, steps)| {
            let mut sums = sums.iter();
            let end = steps.iter().enumerate().map(|(at, step)| match step {
                Step::Send { .. } => content(seed, group, rank, at),
                Step::Receive { peer } => sent[*peer][rank].pop_front().unwrap(),
                Step::Sum => sums.next().unwrap().clone(),
            });
            end.collect()
        });
        ends.collect()
    };
    program(seed).into_iter().enumerate().map(run).collect()
}

fn run(seed: u64, rank: Rank) -> Vec<Vec<Vec<u8>>> {
    let mut random = Random(seed ^ rank.rank as u64);
    // Each rank on streams as it likes; memory is filled on the stream that uses it.
    let streams = [rank, rank.on(driver::create_stream(false).unwrap())];
    let mut used = Vec::new();
    for (group, steps) in program(seed).into_iter().enumerate() {
        let memory: Vec<(Rank, u64)> = (0..steps[rank.rank].len())
            .map(|at| {
                let on = streams[random.below(2)];
                (on, on.memory(&content(seed, group, rank.rank, at)))
            })
            .collect();
        rank.group(|| {
            for (step, (on, memory)) in steps[rank.rank].iter().zip(&memory) {
                match *step {
                    Step::Send { peer } => on.send(*memory, COUNT, DataType::U8, peer).unwrap(),
                    Step::Receive { peer } => on.recv(*memory, COUNT, DataType::U8, peer).unwrap(),
                    Step::Sum => on.all_reduce(*memory, *memory, COUNT, DataType::U8, ReduceOp::Sum).unwrap(),
                }
            }
        })
        .unwrap();
        used.push(memory);
    }
    streams.iter().for_each(Rank::settle);
    used.iter().map(|memory| memory.iter().map(|(on, memory)| on.bytes(*memory, COUNT)).collect()).collect()
}

#[test]
fn random_programs_of_groups_do_what_the_model_says() {
    for seed in 0..12 {
        let expected = model(seed);
        for (rank, ends) in ranks(N_RANKS, |rank| run(seed, rank)).into_iter().enumerate() {
            let expected: Vec<_> = expected.iter().map(|group| group[rank].clone()).collect();
            assert_eq!(ends, expected, "seed {seed}, rank {rank}");
        }
    }
}
