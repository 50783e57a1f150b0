//! Collectives of groups, against what a loop over the ranks gives.

use std::time::{Duration, Instant};

use pp_comm::collectives::{GroupComm, GroupError, Pending};
use pp_comm::{Boundary, Buffer, Collective, CommError, DType, Endpoint, Group, Label, Member, State, Subject};
use pp_schedule::{Channel, Rank, Role};

use crate::common::{ALL, AT_ONCE, EVERY, Kind, meeting, run};
use crate::random::Random;

/// Elements that are the same in every run, of very different size so that the order of a sum shows.
fn data(dtype: DType, shape: &[usize], seed: u64) -> Buffer {
    let mut random = Random::new(seed);
    let n_elements = shape.iter().product();
    let mut value = || (random.next() >> 40) as f64 * 2_f64.powi(random.below(60) as i32 - 40) - 1000.0;
    let buffer = match dtype {
        DType::F32 => Buffer::f32(shape, (0..n_elements).map(|_| value() as f32).collect()),
        DType::F64 => Buffer::f64(shape, (0..n_elements).map(|_| value()).collect()),
        DType::I64 => Buffer::i64(shape, (0..n_elements).map(|_| value().to_bits().cast_signed()).collect()),
        DType::Bf16 => Buffer::bf16(shape, (0..n_elements).map(|_| nearest(value() as f32)).collect()),
    };
    buffer.expect("as long as its shape")
}

/// The brain float nearest to a number that is not too large, found by comparing; the even one of two as near.
fn nearest(value: f32) -> u16 {
    let below = (value.to_bits() >> 16) as u16;
    let far = |bits: u16| (f64::from(f32::from_bits(u32::from(bits) << 16)) - f64::from(value)).abs();
    let (here, there) = (far(below), far(below + 1));
    if here < there || (here == there && below.is_multiple_of(2)) { below } else { below + 1 }
}

/// The sum, rank by rank.
fn serial_sum(parts: &[Buffer]) -> Buffer {
    let mut sum = parts[0].clone();
    for part in &parts[1..] {
        let shape = sum.boundary().shape().to_vec();
        macro_rules! added {
            ($new:ident, $view:ident, $add:expr) => {{
                let pairs = sum.$view().expect("of this type").iter().zip(part.$view().expect("of this type"));
                Buffer::$new(&shape, pairs.map(|(a, b)| $add(*a, *b)).collect())
            }};
        }
        sum = match part.boundary().dtype() {
            DType::F32 => added!(f32, as_f32, |a: f32, b: f32| a + b),
            DType::F64 => added!(f64, as_f64, |a: f64, b: f64| a + b),
            DType::I64 => added!(i64, as_i64, i64::wrapping_add),
            DType::Bf16 => added!(bf16, as_bf16, |a: u16, b: u16| {
                nearest(f32::from_bits(u32::from(a) << 16) + f32::from_bits(u32::from(b) << 16))
            }),
        }
        .expect("as long as before");
    }
    sum
}

/// The same type, shape and bits.
fn same(found: &Buffer, expected: &Buffer) -> bool {
    found.boundary() == expected.boundary() && found.as_bytes() == expected.as_bytes()
}

/// Some elements of a tensor, as a tensor of one dimension.
fn part_of(whole: &Buffer, range: std::ops::Range<usize>) -> Buffer {
    let shape = [range.len()];
    match whole.boundary().dtype() {
        DType::F32 => Buffer::f32(&shape, whole.as_f32().expect("f32")[range].to_vec()),
        DType::F64 => Buffer::f64(&shape, whole.as_f64().expect("f64")[range].to_vec()),
        DType::I64 => Buffer::i64(&shape, whole.as_i64().expect("i64")[range].to_vec()),
        DType::Bf16 => Buffer::bf16(&shape, whole.as_bf16().expect("bf16")[range].to_vec()),
    }
    .expect("as long as its shape")
}

fn of(len: usize) -> Boundary {
    Boundary::new(DType::F32, &[len]).expect("a small shape")
}

fn all(n_ranks: u32, me: Rank) -> GroupComm {
    GroupComm::new(Group::all(n_ranks, me).expect("one of them"))
}

fn channels_of_all(n_ranks: u32) -> Vec<Channel> {
    Group::all(n_ranks, Rank(0)).expect("rank 0").collective_channels()
}

/// A collective that a test asks for, with what each rank gives and what that adds up to.
#[derive(Clone)]
struct Asked {
    collective: Collective,
    root: usize,
    given: Vec<Buffer>,
    sum: Buffer,
}

/// What kind of elements, in what shape.
type Kinds<'a> = (DType, &'a [usize]);

/// One that was started.
enum Started {
    Nothing(Pending<()>),
    One(Pending<Buffer>),
    Many(Pending<Vec<Buffer>>),
}

impl Asked {
    fn new(collective: Collective, (dtype, shape): Kinds<'_>, n_ranks: u32, root: usize, seed: u64) -> Self {
        let given: Vec<Buffer> = (0..u64::from(n_ranks)).map(|place| data(dtype, shape, seed * 1000 + place)).collect();
        let sum = serial_sum(&given);
        Self { collective, root, given, sum }
    }

    fn start(&self, comm: &mut GroupComm, endpoint: &mut Endpoint) -> Result<Started, GroupError> {
        let place = comm.group().place();
        let mine = self.given[place].clone();
        Ok(match self.collective {
            Collective::Barrier => Started::Nothing(comm.start_barrier(endpoint)?),
            Collective::AllGather => Started::Many(comm.start_all_gather(endpoint, mine)?),
            Collective::AllReduce => Started::One(comm.start_all_reduce(endpoint, mine)?),
            Collective::ReduceScatter => Started::One(comm.start_reduce_scatter(endpoint, mine)?),
            Collective::Broadcast => {
                let boundary = mine.boundary().clone();
                let buffer = (place == self.root).then_some(mine);
                Started::One(comm.start_broadcast(endpoint, self.root, &boundary, buffer)?)
            }
        })
    }

    /// Waits, and compares with the reference.
    fn check(&self, started: Started, comm: &GroupComm, endpoint: &mut Endpoint, what: &str) {
        let found = match started {
            Started::Nothing(pending) => pending.wait(endpoint).map(|()| Vec::new()),
            Started::One(pending) => pending.wait(endpoint).map(|buffer| vec![buffer]),
            Started::Many(pending) => pending.wait(endpoint),
        };
        let found = found.unwrap_or_else(|error| panic!("{what}, {self}: {error}"));
        let expected = match self.collective {
            Collective::Barrier => vec![],
            Collective::AllGather => self.given.clone(),
            Collective::AllReduce => vec![self.sum.clone()],
            Collective::ReduceScatter => {
                vec![part_of(&self.sum, comm.share(self.sum.boundary().n_elements()))]
            }
            Collective::Broadcast => vec![self.given[self.root].clone()],
        };
        assert_eq!(found.len(), expected.len(), "{what}, {self}");
        assert!(found.iter().zip(&expected).all(|(found, expected)| same(found, expected)), "{what}, {self}");
    }
}

impl std::fmt::Display for Asked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {}, root {}", self.collective, self.sum.boundary(), self.root)
    }
}

const COLLECTIVES: [Collective; 5] = [
    Collective::Barrier,
    Collective::AllGather,
    Collective::AllReduce,
    Collective::ReduceScatter,
    Collective::Broadcast,
];

/// Sizes with and without a remainder, smaller than the group, empty, whole and in shares.
#[test]
fn every_collective_gives_what_a_loop_over_the_ranks_does() {
    let shapes =
        [vec![], vec![0], vec![1], vec![3], vec![5, 2], vec![2, 0, 3], vec![1001], vec![10_007], vec![64, 257]];
    for (kind, n_ranks) in ALL.into_iter().flat_map(|kind| (1..=5_u32).map(move |n_ranks| (kind, n_ranks))) {
        let mut asked = Vec::new();
        for (shape, collective) in shapes.iter().flat_map(|shape| COLLECTIVES.map(|collective| (shape, collective))) {
            let seed = asked.len() as u64;
            let dtype = [DType::F32, DType::F64, DType::I64, DType::Bf16][asked.len() % 4];
            let root = asked.len() % n_ranks as usize;
            asked.push(Asked::new(collective, (dtype, shape), n_ranks, root, seed));
        }
        run(kind, n_ranks, &channels_of_all(n_ranks), |mut member| {
            let mut comm = all(n_ranks, member.endpoint.rank());
            for (asked, round) in asked.iter().zip(0..) {
                assert_eq!(comm.n_rounds(), round);
                let started = asked.start(&mut comm, &mut member.endpoint).expect("started");
                asked.check(started, &comm, &mut member.endpoint, &format!("{kind:?}, {n_ranks} ranks"));
            }
            member.close();
        });
    }
}

#[test]
fn a_reduce_scatter_and_an_all_gather_of_its_shares_are_an_all_reduce() {
    for (kind, len) in ALL.into_iter().flat_map(|kind| [0, 2, 100, 20_003].map(|len| (kind, len))) {
        run(kind, 3, &channels_of_all(3), |mut member| {
            let (endpoint, me) = (&mut member.endpoint, member.control.rank());
            let mut comm = all(3, me);
            let given: Vec<Buffer> = (0..3).map(|rank| data(DType::F32, &[len], rank)).collect();
            let mine = given[me.idx()].clone();
            let share = comm.reduce_scatter(endpoint, mine.clone()).expect("summed");
            let whole = comm.all_gather_shares(endpoint, share, mine.boundary()).expect("gathered");
            let sum = comm.all_reduce(endpoint, mine).expect("summed");
            assert!(same(&whole, &serial_sum(&given)) && same(&whole, &sum), "{kind:?}, {len}");
            member.close();
        });
    }
}

/// Random groups of six ranks, random collectives on them, started one while others are under way, and waited for in another order.
/// Each rank puts its starts and waits together in its own way.
#[test]
fn collectives_of_many_groups_at_once_do_not_mix() {
    const N_RANKS: u32 = 6;
    for (kind, seed) in EVERY.into_iter().flat_map(|kind| (1..=3).map(move |seed| (kind, seed))) {
        let mut random = Random::new(seed);
        let mut groups: Vec<Vec<Rank>> = Vec::new();
        while groups.len() < 4 {
            let mut ranks: Vec<Rank> = (0..N_RANKS).map(Rank).collect();
            (1..ranks.len()).for_each(|at| ranks.swap(at, random.below(at as u64 + 1) as usize));
            ranks.truncate(1 + random.below(N_RANKS.into()) as usize);
            groups.push(ranks);
        }
        let asked: Vec<(usize, Asked)> = (0..40)
            .map(|seed| {
                let group = random.below(4) as usize;
                let len = [0, 3, 500, 9_001][random.below(4) as usize];
                let collective = COLLECTIVES[random.below(5) as usize];
                let dtype = [DType::F32, DType::F64, DType::I64, DType::Bf16][random.below(4) as usize];
                let root = random.below(groups[group].len() as u64) as usize;
                (group, Asked::new(collective, (dtype, &[len]), groups[group].len() as u32, root, seed))
            })
            .collect();
        // Across groups ranks must agree on the order of waits; it need not be that of starts.
        let mut waits: Vec<usize> = (0..asked.len()).collect();
        (1..waits.len()).for_each(|at| waits.swap(at, at - random.below(at.min(6) as u64 + 1) as usize));
        let group = |index: usize, me| Group::new(index as u32 + 1, groups[index].clone(), me);
        let channels: Vec<Channel> =
            (0..4).flat_map(|index| group(index, groups[index][0]).expect("in it").collective_channels()).collect();
        run(kind, N_RANKS, &channels, |member| {
            let me = member.endpoint.rank();
            let comms = (0..4).map(|index| group(index, me).map(GroupComm::new)).collect();
            run_asked(member, comms, &asked, &waits, &format!("{kind:?}, seed {seed}"));
        });
    }
}

fn run_asked(
    mut member: Member,
    mut comms: Vec<Option<GroupComm>>,
    asked: &[(usize, Asked)],
    waits: &[usize],
    what: &str,
) {
    let mut random = Random::new(member.endpoint.rank().0.into());
    let mut started: Vec<Option<Started>> = Vec::new();
    for &wait in waits {
        while started.len() <= wait || (started.len() < asked.len() && random.below(3) == 0) {
            let (group, asked) = &asked[started.len()];
            let start = |comm: &mut GroupComm| asked.start(comm, &mut member.endpoint).expect("started");
            started.push(comms[*group].as_mut().map(start));
        }
        let (group, asked) = &asked[wait];
        if let (Some(comm), Some(started)) = (&comms[*group], started[wait].take()) {
            asked.check(started, comm, &mut member.endpoint, what);
        }
    }
    member.close();
}

/// Within a group ranks need not even wait in the same order, also where results follow in a second round.
#[test]
fn handles_of_a_group_are_waited_for_in_any_order() {
    for kind in ALL {
        run(kind, 3, &channels_of_all(3), |mut member| {
            let me = member.endpoint.rank();
            let mut comm = all(3, me);
            let asked = |seed| {
                let collective = if seed % 3 == 2 { Collective::Broadcast } else { Collective::AllReduce };
                Asked::new(collective, (DType::F64, &[10_000]), 3, 1, seed)
            };
            let start = |seed| (seed, asked(seed).start(&mut comm, &mut member.endpoint).expect("started"));
            let mut started: Vec<_> = (0..6).map(start).collect();
            started.rotate_left(2 * me.idx());
            if me == Rank(1) {
                started.reverse();
            }
            for (seed, started) in started {
                asked(seed).check(started, &comm, &mut member.endpoint, &format!("{kind:?}"));
            }
            member.close();
        });
    }
}

#[test]
fn a_handle_that_is_dropped_does_not_disturb_what_comes_after() {
    for kind in ALL {
        run(kind, 3, &channels_of_all(3), |mut member| {
            let (endpoint, me) = (&mut member.endpoint, member.control.rank());
            let mut comm = all(3, me);
            for seed in 0..6 {
                let asked = Asked::new(Collective::AllReduce, (DType::F32, &[20_000]), 3, 0, seed);
                let started = asked.start(&mut comm, endpoint).expect("started");
                // Each rank drops other ones; the last is waited for by all.
                if seed == 5 || (seed + u64::from(me.0)) % 3 != 0 {
                    asked.check(started, &comm, endpoint, &format!("{kind:?}"));
                }
            }
            member.close();
        });
    }
}

/// Bytes that a rank posted for its collectives, without the words they begin with, and those words.
fn sent(endpoint: &Endpoint) -> (u64, u64) {
    let of = |words: bool| {
        let sends = endpoint.recorder().events().into_iter().filter(move |event| {
            let Subject::Transfer(operation) = event.subject else { return false };
            let Label::Piece { piece, .. } = operation.label else { return false };
            event.state == State::Posted && operation.role == Role::Send && (piece == 0) == words
        });
        sends.map(|event| event.n_bytes).sum()
    };
    (of(false), of(true))
}

#[test]
fn a_rank_sends_no_more_than_it_must() {
    for n in [2_u64, 3, 4, 5] {
        // Divisible by every number of shares, and beyond what goes whole.
        let len = 60 * 512;
        let bytes = 4 * len as u64;
        let expected = |collective, place: u64| match collective {
            Collective::Barrier => 0,
            Collective::AllGather => (n - 1) * bytes,
            Collective::AllReduce => 2 * (n - 1) * bytes / n,
            Collective::ReduceScatter => (n - 1) * bytes / n,
            Collective::Broadcast if place == 1 => bytes,
            Collective::Broadcast => bytes * (n - 2) / (n - 1),
        };
        for collective in COLLECTIVES {
            run(Kind::Memory(1), n as u32, &channels_of_all(n as u32), |mut member| {
                let mut comm = all(n as u32, member.endpoint.rank());
                let asked = Asked::new(collective, (DType::F32, &[len]), n as u32, 1, n);
                let started = asked.start(&mut comm, &mut member.endpoint).expect("started");
                asked.check(started, &comm, &mut member.endpoint, "counted");
                let place = comm.group().place() as u64;
                let counted = sent(&member.endpoint);
                assert_eq!(counted, (expected(collective, place), 96 * (n - 1)), "{collective} over {n} ranks");
                member.close();
            });
        }
    }
}

/// What each rank of four gets where one of them does something else, asked for as given.
fn mismatch(kind: Kind, asked: impl Fn(Rank) -> Asked + Sync) -> Vec<GroupError> {
    let told = meeting(4);
    let outcomes = run(kind, 4, &channels_of_all(4), |mut member| {
        let (endpoint, start) = (&mut member.endpoint, Instant::now());
        let mut comm = all(4, endpoint.rank());
        let done = asked(endpoint.rank()).start(&mut comm, endpoint).and_then(|started| match started {
            Started::Nothing(pending) => pending.wait(endpoint),
            Started::One(pending) => pending.wait(endpoint).map(drop),
            Started::Many(pending) => pending.wait(endpoint).map(drop),
        });
        // The channels are out of step; nobody is to be misled.
        let outcome = (done, comm.barrier(endpoint), start.elapsed());
        told.wait();
        outcome
    });
    let errors = outcomes.into_iter().map(|(done, again, took)| {
        let error = done.expect_err("not all agree");
        assert!(took < AT_ONCE, "{kind:?}: {took:?}, {error}");
        assert_eq!(again.expect_err("it stays so"), error);
        error
    });
    errors.collect()
}

#[test]
fn ranks_that_disagree_all_learn_it_at_once() {
    let base = |collective, shape: &[usize]| Asked::new(collective, (DType::F32, shape), 4, 0, 0);
    for (kind, odd) in ALL.into_iter().zip([0, 1, 2, 3, 0, 1].map(Rank)) {
        // Some ranks have shares of the same size all the same.
        for (collective, (ours, theirs)) in COLLECTIVES[1..].iter().flat_map(|&collective| {
            [([10], [11]), ([40_000], [40_001]), ([10], [40_000])].map(|lens| (collective, lens))
        }) {
            for error in mismatch(kind, |me| base(collective, if me == odd { &theirs } else { &ours })) {
                let GroupError::Comm(CommError::WrongBoundary { expected, found, .. }) = &error else {
                    panic!("{kind:?}, {collective}: {error}")
                };
                let mut both = [expected.shape(), found.shape()];
                both.sort_unstable();
                assert_eq!(both, [&ours[..], &theirs[..]]);
            }
        }
        let errors = mismatch(kind, |me| {
            let dtype = if me == odd { DType::I64 } else { DType::F64 };
            Asked::new(Collective::AllReduce, (dtype, &[40_000]), 4, 0, 0)
        });
        assert!(errors.iter().all(|error| matches!(error, GroupError::Comm(CommError::WrongBoundary { .. }))));
        for error in mismatch(kind, |me| {
            base(if me == odd { Collective::AllReduce } else { Collective::ReduceScatter }, &[40_000])
        }) {
            let GroupError::Comm(CommError::WrongMessage { .. }) = &error else { panic!("{kind:?}: {error}") };
            let text = error.to_string();
            assert!(text.contains("of all-reduce 0 of group 0") && text.contains("of reduce-scatter 0"), "{text}");
        }
        for error in mismatch(kind, |me| Asked { root: usize::from(me == odd), ..base(Collective::Broadcast, &[5]) }) {
            assert!(matches!(error, GroupError::Root { .. }), "{kind:?}: {error}");
        }
    }
}

#[test]
fn a_rank_that_does_not_come_is_named_at_the_deadline() {
    for kind in ALL {
        let told = meeting(3);
        run(kind, 3, &channels_of_all(3), |mut member| {
            let (endpoint, me) = (&mut member.endpoint, member.control.rank());
            endpoint.set_deadline(Duration::from_millis(300));
            if me != Rank(1) {
                let error = all(3, me).barrier(endpoint).expect_err("one is missing");
                let GroupError::Comm(CommError::Deadline { operation, .. }) = &error else {
                    panic!("{kind:?}: {error}")
                };
                assert_eq!(operation.peer(), Rank(1));
                assert!(error.to_string().contains("barrier 0 of group 0"), "{error}");
            }
            told.wait();
            member.close();
        });
    }
}

#[test]
fn a_barrier_waits_for_all_of_its_group_and_for_nobody_else() {
    use std::sync::atomic::{AtomicU32, Ordering};
    let group = |me| Group::new(5, vec![Rank(3), Rank(0), Rank(2)], me);
    let channels = group(Rank(0)).expect("in it").collective_channels();
    for kind in ALL {
        let arrived = AtomicU32::new(0);
        run(kind, 4, &channels, |mut member| {
            if let Some(group) = group(member.endpoint.rank()) {
                let mut comm = GroupComm::new(group);
                for round in 1..=10 {
                    arrived.fetch_add(1, Ordering::SeqCst);
                    comm.barrier(&mut member.endpoint).expect("all arrive");
                    assert!(arrived.load(Ordering::SeqCst) >= 3 * round, "{kind:?}");
                    comm.barrier(&mut member.endpoint).expect("all arrive");
                }
            }
            member.close();
        });
    }
}

#[test]
fn arguments_that_make_no_sense_are_refused_before_anything_is_sent() {
    run(Kind::Memory(0), 2, &channels_of_all(2), |mut member| {
        let (endpoint, me) = (&mut member.endpoint, member.control.rank());
        let mut comm = all(2, me);
        let buffer = || data(DType::F32, &[3], 0);
        let error = comm.broadcast(endpoint, 2, &of(3), None).expect_err("no such place");
        assert_eq!(error, GroupError::NoSuchRoot { rank: me, root: 2, group: 0, n_ranks: 2 });
        let other = 1 - me.idx();
        let error = comm.broadcast(endpoint, other, &of(3), Some(buffer())).expect_err("it is not the root");
        assert_eq!(error, GroupError::Giver { rank: me, root: other, place: me.idx(), gives: true });
        let error = comm.broadcast(endpoint, me.idx(), &of(3), None).expect_err("it is the root");
        assert_eq!(error, GroupError::Giver { rank: me, root: me.idx(), place: me.idx(), gives: false });
        let error = comm.broadcast(endpoint, me.idx(), &of(4), Some(buffer())).expect_err("another length");
        assert_eq!(error, GroupError::Given { expected: of(4), given: of(3) });
        let error = comm.all_gather_shares(endpoint, buffer(), &of(8)).expect_err("each has four of eight");
        assert_eq!(error, GroupError::Given { expected: of(4), given: of(3) });
        member.close();
    });
}
