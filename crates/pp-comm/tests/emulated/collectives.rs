//! Collectives of tensors on devices, between processes.

use std::time::Duration;

use pp_comm::collectives::{GroupComm, GroupError};
use pp_comm::{Buffer, Collective, CommError, DType, Group};
use pp_schedule::Rank;

use crate::asked::{Asked, COLLECTIVES, DTYPES, Started, WAYS, bytes_of, channels_of, elements, numbers, on_device};
use crate::common::{Kind, PATIENCE};
use crate::faults::FAULTS;
use crate::gpu::Way;
use crate::harness::Run;
use crate::random::Random;
use crate::ranks::End;

/// Sizes with and without a remainder, smaller than the group, and empty.
#[test]
fn every_collective_gives_what_a_loop_over_the_ranks_does() {
    let shapes = [vec![], vec![0], vec![1], vec![3], vec![4, 3], vec![2, 0, 3], vec![1001], vec![64, 60]];
    for (way, n_ranks) in WAYS.into_iter().flat_map(|way| (1..=4_u32).map(move |n_ranks| (way, n_ranks))) {
        let groups = vec![(5, (0..n_ranks).collect::<Vec<u32>>())];
        let run = Run { groups: groups.clone(), ..Run::new(Kind::Nccl(way), n_ranks, &channels_of(&groups)) };
        run.all(|mut seat| {
            let me = seat.member.endpoint.rank();
            let mut comm = GroupComm::new(Group::new(5, (0..n_ranks).map(Rank).collect(), me).expect("one of them"));
            let asked = shapes.iter().flat_map(|shape| COLLECTIVES.map(|collective| (shape, collective)));
            for (seed, (shape, collective)) in (0..).zip(asked) {
                let (root, dtype) = (seed as usize % n_ranks as usize, DTYPES[seed as usize % 4]);
                let (shape, n_ranks) = (shape.clone(), n_ranks as usize);
                let asked = Asked { collective, dtype, shape, root, n_ranks, seed };
                let started = asked.start(&mut comm, &mut seat).expect("started");
                asked.check(started, &comm, &mut seat);
            }
            seat.member.close();
        });
    }
}

/// A reduce-scatter and an all-gather of its shares, even or not.
#[test]
fn shares_of_a_sum_are_gathered_to_the_sum() {
    for (way, len) in WAYS.into_iter().flat_map(|way| [0, 2, 99, 100].map(|len| (way, len))) {
        let groups = vec![(1, vec![2, 0, 1])];
        let run = Run { groups: groups.clone(), ..Run::new(Kind::Nccl(way), 3, &channels_of(&groups)) };
        run.all(|mut seat| {
            let (endpoint, gpu) = (&mut seat.member.endpoint, seat.gpu.as_ref().expect("it has a device"));
            let group = Group::new(1, vec![Rank(2), Rank(0), Rank(1)], endpoint.rank()).expect("one of them");
            let (place, mut comm) = (group.place(), GroupComm::new(group));
            let given: Vec<Vec<i64>> = (0..3).map(|place| numbers(len, place)).collect();
            let sum: Vec<i64> = (0..len).map(|index| given.iter().map(|given| given[index]).sum()).collect();
            let mine = on_device(gpu, DType::F32, &[len], &elements(DType::F32, &given[place]));
            let share = comm.reduce_scatter(endpoint, mine.clone()).expect("summed");
            let whole = comm.all_gather_shares(endpoint, share, mine.boundary()).expect("gathered");
            assert_eq!(bytes_of(endpoint, gpu, &whole), elements(DType::F32, &sum));
            assert_eq!(
                bytes_of(endpoint, gpu, &mine),
                elements(DType::F32, &given[place]),
                "what is given stays as it is"
            );
            seat.member.close();
        });
    }
}

/// Whatever order the sum is taken in, it is one and the same on all ranks.
#[test]
fn a_sum_of_floats_has_the_same_bits_on_all_ranks() {
    let groups = vec![(1, vec![0, 1, 2, 3])];
    let run = Run { groups: groups.clone(), ..Run::new(Kind::Nccl(Way::DEFAULT), 4, &channels_of(&groups)) };
    let sums: Vec<Vec<u8>> = run.all(|mut seat| {
        let (endpoint, gpu) = (&mut seat.member.endpoint, seat.gpu.as_ref().expect("it has a device"));
        let mut random = Random::new(endpoint.rank().0.into());
        let value = |_| ((random.next() >> 40) as f32 * 1e-3).to_ne_bytes();
        let bytes: Vec<u8> = (0..1000).flat_map(value).collect();
        let mut comm = GroupComm::new(Group::new(1, (0..4).map(Rank).collect(), endpoint.rank()).expect("one of them"));
        let sum = comm.all_reduce(endpoint, on_device(gpu, DType::F32, &[1000], &bytes)).expect("summed");
        let sum = bytes_of(endpoint, gpu, &sum);
        seat.member.close();
        sum
    });
    assert!(sums.windows(2).all(|pair| pair[0] == pair[1]));
}

/// Random groups of four ranks, random collectives on them, started one while others are under way, and waited for in another
/// order.
#[test]
fn collectives_of_many_groups_at_once_do_not_mix() {
    const N_RANKS: u32 = 4;
    for (way, seed) in WAYS.into_iter().zip(1..) {
        let mut random = Random::new(seed);
        let mut groups: Vec<(u32, Vec<u32>)> = Vec::new();
        while groups.len() < 3 {
            let mut ranks: Vec<u32> = (0..N_RANKS).collect();
            (1..ranks.len()).for_each(|at| ranks.swap(at, random.below(at as u64 + 1) as usize));
            ranks.truncate(1 + random.below(N_RANKS.into()) as usize);
            groups.push((groups.len() as u32 + 1, ranks));
        }
        let mut one = |seed| {
            let group = random.below(3) as usize;
            let n_ranks = groups[group].1.len();
            let (collective, dtype) = (COLLECTIVES[random.below(5) as usize], DTYPES[random.below(4) as usize]);
            let (shape, root) = (vec![[0, 3, 500][random.below(3) as usize]], random.below(n_ranks as u64) as usize);
            (group, Asked { collective, dtype, shape, root, n_ranks, seed })
        };
        let asked: Vec<(usize, Asked)> = (0..30).map(&mut one).collect();
        // Across groups ranks must agree on the order of waits; it need not be that of starts.
        let mut waits: Vec<usize> = (0..asked.len()).collect();
        (1..waits.len()).for_each(|at| waits.swap(at, at - random.below(at.min(6) as u64 + 1) as usize));
        let run = Run { groups: groups.clone(), ..Run::new(Kind::Nccl(way), N_RANKS, &channels_of(&groups)) };
        run.all(|mut seat| {
            let me = seat.member.endpoint.rank();
            let of = |(id, ranks): &(u32, Vec<u32>)| Group::new(*id, ranks.iter().copied().map(Rank).collect(), me);
            let mut comms: Vec<Option<GroupComm>> = groups.iter().map(|group| of(group).map(GroupComm::new)).collect();
            let mut started: Vec<Option<Started>> = Vec::new();
            for &wait in &waits {
                while started.len() <= wait {
                    let (group, asked) = &asked[started.len()];
                    let start = |comm: &mut GroupComm| asked.start(comm, &mut seat).expect("started");
                    started.push(comms[*group].as_mut().map(start));
                }
                let (group, asked) = &asked[wait];
                if let (Some(comm), Some(started)) = (&comms[*group], started[wait].take()) {
                    asked.check(started, comm, &mut seat);
                }
            }
            seat.member.close();
        });
    }
}

/// What each rank of three is told where rank 1 asks for something else.
fn mismatch(asked: impl Fn(Rank) -> Asked) -> Vec<String> {
    let groups = vec![(2, vec![0, 1, 2])];
    let run = Run { groups: groups.clone(), ..Run::new(Kind::Nccl(Way::DEFAULT), 3, &channels_of(&groups)) };
    run.within(
        |joined| {
            let mut seat = joined.seat();
            let me = seat.member.endpoint.rank();
            let mut comm = GroupComm::new(Group::new(2, (0..3).map(Rank).collect(), me).expect("one of them"));
            let error = asked(me).start(&mut comm, &mut seat).and_then(|started| {
                let endpoint = &mut seat.member.endpoint;
                match started {
                    Started::Nothing(pending) => pending.wait(endpoint),
                    Started::One(pending) => pending.wait(endpoint).map(drop),
                    Started::Many(pending) => pending.wait(endpoint).map(drop),
                }
            });
            let error = error.expect_err("they do not agree");
            // All are to have been told before the first leaves.
            seat.member.control.barrier().expect("nobody is lost");
            seat.member.close();
            error.to_string()
        },
        |outcome| outcome.said(),
    )
}

#[test]
fn ranks_that_disagree_all_learn_it_and_nothing_is_launched() {
    let base =
        Asked { collective: Collective::AllReduce, dtype: DType::F32, shape: vec![6], root: 0, n_ranks: 3, seed: 0 };
    let odd = |me: Rank, other: Asked| if me == Rank(1) { other } else { base.clone() };
    let length = mismatch(|me| odd(me, Asked { shape: vec![7], ..base.clone() }));
    assert!(length.iter().all(|text| text.contains("f32 [6]") && text.contains("f32 [7]")), "{length:?}");
    let dtype = mismatch(|me| odd(me, Asked { dtype: DType::F64, ..base.clone() }));
    assert!(dtype.iter().all(|text| text.contains("f32 [6]") && text.contains("f64 [6]")), "{dtype:?}");
    let kind = mismatch(|me| odd(me, Asked { collective: Collective::ReduceScatter, ..base.clone() }));
    assert!(kind.iter().all(|text| text.contains("all-reduce 0") && text.contains("reduce-scatter 0")), "{kind:?}");
    let cast = Asked { collective: Collective::Broadcast, ..base.clone() };
    let root = mismatch(|me| Asked { root: usize::from(me == Rank(1)), ..cast.clone() });
    assert!(root.iter().all(|text| text.contains("place 0") && text.contains("place 1")), "{root:?}");
}

#[test]
fn a_tensor_on_the_host_where_others_have_theirs_on_devices_is_refused_on_all_ranks() {
    let groups = vec![(2, vec![0, 1, 2])];
    let run = Run { groups: groups.clone(), ..Run::new(Kind::Nccl(Way::DEFAULT), 3, &channels_of(&groups)) };
    let errors: Vec<String> = run.all(|mut seat| {
        let (endpoint, gpu) = (&mut seat.member.endpoint, seat.gpu.as_ref().expect("it has a device"));
        let mut comm = GroupComm::new(Group::new(2, (0..3).map(Rank).collect(), endpoint.rank()).expect("one of them"));
        let mine = match endpoint.rank() {
            Rank(1) => Buffer::f32(&[2], vec![1.0, 2.0]).expect("two elements"),
            _ => on_device(gpu, DType::F32, &[2], &elements(DType::F32, &[1, 2])),
        };
        let error = comm.all_reduce(endpoint, mine).expect_err("they are not in one place");
        seat.member.control.barrier().expect("nobody is lost");
        seat.member.close();
        assert!(matches!(error, GroupError::Memory { group: 2, round: 0, .. }), "{error}");
        error.to_string()
    });
    assert!(errors[1].contains("rank") && errors[1].contains("is on its device"), "{errors:?}");
    assert!(errors[0].contains("rank 1's tensor is on the host"), "{errors:?}");
}

#[test]
fn a_group_without_a_communicator_takes_no_tensors_on_devices() {
    let groups = vec![(2, vec![0, 1])];
    let channels = channels_of(&groups);
    Run::new(Kind::Nccl(Way::DEFAULT), 2, &channels).all(|mut seat| {
        let (endpoint, gpu) = (&mut seat.member.endpoint, seat.gpu.as_ref().expect("it has a device"));
        let mut comm = GroupComm::new(Group::new(2, (0..2).map(Rank).collect(), endpoint.rank()).expect("one of them"));
        let mine = on_device(gpu, DType::F32, &[2], &elements(DType::F32, &[1, 2]));
        let error = comm.all_reduce(endpoint, mine).expect_err("it was not named");
        assert_eq!(error, GroupError::NoCommunicator { rank: endpoint.rank(), group: 2 });
        // What is on the host goes as ever.
        let sum = comm.all_reduce(endpoint, Buffer::i64(&[1], vec![3]).expect("one element")).expect("summed");
        assert_eq!(sum.into_i64().expect("as given"), [6]);
        seat.member.close();
    });
}

/// Rank 1 never comes; the others say what they wait for, and for whom.
#[test]
fn a_rank_that_does_not_come_is_named_at_the_deadline() {
    let groups = vec![(2, vec![0, 1, 2])];
    let run = Run { groups: groups.clone(), ..Run::new(Kind::Nccl(Way::DEFAULT), 3, &channels_of(&groups)) };
    run.all(|mut seat| {
        let (endpoint, gpu) = (&mut seat.member.endpoint, seat.gpu.as_ref().expect("it has a device"));
        let me = endpoint.rank();
        if me != Rank(1) {
            endpoint.set_deadline(Duration::from_millis(500));
            let mut comm = GroupComm::new(Group::new(2, (0..3).map(Rank).collect(), me).expect("one of them"));
            let mine = on_device(gpu, DType::F32, &[2], &elements(DType::F32, &[1, 2]));
            let error = comm.all_reduce(endpoint, mine).expect_err("one is missing");
            let GroupError::Comm(CommError::Deadline { operation, .. }) = &error else { panic!("{error}") };
            assert_eq!(operation.peer(), Rank(1));
            assert!(error.to_string().contains("all-reduce 0 of group 2"), "{error}");
        }
        seat.member.control.barrier().expect("nobody is lost");
        seat.member.close();
    });
}

#[test]
fn a_handle_that_is_dropped_does_not_disturb_what_comes_after() {
    for way in WAYS {
        let groups = vec![(3, vec![0, 1, 2])];
        let run = Run { groups: groups.clone(), ..Run::new(Kind::Nccl(way), 3, &channels_of(&groups)) };
        run.all(|mut seat| {
            let me = seat.member.endpoint.rank();
            let mut comm = GroupComm::new(Group::new(3, (0..3).map(Rank).collect(), me).expect("one of them"));
            for seed in 0..6 {
                let (collective, dtype) = (Collective::AllReduce, DType::F32);
                let asked = Asked { collective, dtype, shape: vec![500], root: 0, n_ranks: 3, seed };
                let started = asked.start(&mut comm, &mut seat).expect("started");
                // Each rank drops other ones; the last is waited for by all.
                if seed == 5 || (seed + u64::from(me.0)) % 3 != 0 {
                    asked.check(started, &comm, &mut seat);
                }
            }
            seat.member.close();
        });
    }
}

/// Rank 1 dies in its third all-reduce; its first operation tries the group's communicator.
#[test]
fn a_rank_that_dies_in_a_collective_is_named_by_all_others() {
    for way in WAYS {
        let groups = vec![(3, vec![0, 1, 2])];
        let env = vec![(Some(1), FAULTS, "die=4".to_owned())];
        let run = Run { env, groups: groups.clone(), ..Run::new(Kind::Nccl(way), 3, &channels_of(&groups)) };
        run.within(
            |joined| {
                let mut seat = joined.seat();
                let (endpoint, gpu) = (&mut seat.member.endpoint, seat.gpu.as_ref().expect("it has a device"));
                let me = endpoint.rank();
                let mut comm = GroupComm::new(Group::new(3, (0..3).map(Rank).collect(), me).expect("one of them"));
                let error = (0..5).find_map(|_| {
                    let mine = on_device(gpu, DType::F32, &[64], &elements(DType::F32, &[1; 64]));
                    let summed = comm.all_reduce(endpoint, mine).map(drop);
                    summed.and_then(|()| Ok(endpoint.settle()?)).err()
                });
                let error = error.expect("one is gone");
                matches!(error, GroupError::Comm(CommError::PeerLost { rank: Rank(1), .. }))
            },
            |outcome| {
                let ends = &outcome.ended.ends;
                assert!(matches!(ends[1], End::Died(_)), "{ends:?}");
                let named = End::Said("true".to_owned());
                assert!(ends[0] == named && ends[2] == named, "{ends:?}\n{}", outcome.ended.words);
                assert!(outcome.ended.times.iter().all(|time| *time < PATIENCE / 2), "{:?}", outcome.ended.times);
            },
        );
    }
}
