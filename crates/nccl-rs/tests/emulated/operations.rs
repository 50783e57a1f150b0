//! What each operation does, and what is refused.

use std::sync::{Arc, Barrier};
use std::time::Duration;

use nccl_rs::{
    Comm, CommConfig, DataType, Device, DeviceBytes, DevicePart, Group, NcclError, ReduceOp, Shared, Stream, UniqueId,
};

use crate::support::{Case, LIMIT, Rank, cudarc_stream, processes, ranks};

/// Launches and waits.
fn complete(rank: &Rank, group: Group<'_>) {
    group.launch(&rank.stream, LIMIT).unwrap().wait(LIMIT).unwrap();
}

/// Sends once around the ring.
fn around(rank: &Rank, n_bytes: usize, dtype: DataType) {
    let n_ranks = rank.comm.n_ranks();
    let (next, previous) = ((rank.rank + 1) % n_ranks, (rank.rank + n_ranks - 1) % n_ranks);
    let to: Shared = Arc::new(DeviceBytes::new(&rank.stream, n_bytes).unwrap());
    let mut group = Group::new();
    group.send(&rank.comm, rank.bytes(&vec![rank.rank as u8; n_bytes]), dtype, next).unwrap();
    group.recv(&rank.comm, to.clone(), dtype, previous).unwrap();
    complete(rank, group);
    assert_eq!(rank.read(&to), vec![previous as u8; n_bytes]);
}

#[test]
fn messages_of_every_type_go_around_a_ring() {
    Case::new("operations::messages_of_every_type_go_around_a_ring").run(|| {
        use DataType::{Bf16, F16, F32, F64, I32, I64, U8};
        ranks(3, |rank| {
            for dtype in [U8, I32, I64, F16, Bf16, F32, F64] {
                around(&rank, 24, dtype);
            }
            around(&rank, 1 << 20, F32);
            rank.leave();
        });
    });
}

#[test]
fn ranks_may_be_processes() {
    const NAME: &str = "operations::ranks_may_be_processes";
    Case::new(NAME).run(|| {
        let have_passed = processes(NAME, 3, |rank| {
            around(&rank, 4096, DataType::F32);
            rank.leave();
        });
        assert!(have_passed.iter().all(|passed| *passed));
    });
}

#[test]
fn all_reduce_reduces_in_every_way() {
    Case::new("operations::all_reduce_reduces_in_every_way").run(|| {
        let expected = [
            (ReduceOp::Sum, [9.0, -3.0]),
            (ReduceOp::Product, [24.0, -1.0]),
            (ReduceOp::Max, [4.0, -1.0]),
            (ReduceOp::Min, [2.0, -1.0]),
            (ReduceOp::Average, [3.0, -1.0]),
        ];
        ranks(3, |rank| {
            let values = [rank.rank as f32 + 2.0, -1.0];
            for (op, expected) in expected {
                let to: Shared = Arc::new(DeviceBytes::new(&rank.stream, 8).unwrap());
                let mut group = Group::new();
                group.all_reduce(&rank.comm, rank.floats(&values), to.clone(), DataType::F32, op).unwrap();
                complete(&rank, group);
                assert_eq!(rank.read_floats(&to), expected, "{op:?}");
                let both = rank.floats(&values);
                let mut group = Group::new();
                group.all_reduce(&rank.comm, both.clone(), both.clone(), DataType::F32, op).unwrap();
                complete(&rank, group);
                assert_eq!(rank.read_floats(&both), expected, "{op:?} in place");
            }
            rank.leave();
        });
    });
}

#[test]
fn all_gather_and_reduce_scatter_take_parts() {
    Case::new("operations::all_gather_and_reduce_scatter_take_parts").run(|| {
        ranks(3, |rank| {
            let all: Shared = Arc::new(DeviceBytes::new(&rank.stream, 12).unwrap());
            let mut group = Group::new();
            group.all_gather(&rank.comm, rank.floats(&[rank.rank as f32]), all.clone(), DataType::F32).unwrap();
            complete(&rank, group);
            assert_eq!(rank.read_floats(&all), [0.0, 1.0, 2.0]);
            let part: Shared = Arc::new(DeviceBytes::new(&rank.stream, 4).unwrap());
            let mut group = Group::new();
            group.reduce_scatter(&rank.comm, all, part.clone(), DataType::F32, ReduceOp::Sum).unwrap();
            complete(&rank, group);
            assert_eq!(rank.read_floats(&part), [3.0 * rank.rank as f32]);
            rank.leave();
        });
    });
}

#[test]
fn parts_may_be_gathered_and_scattered_in_place() {
    Case::new("operations::parts_may_be_gathered_and_scattered_in_place").run(|| {
        ranks(2, |rank| {
            let whole = rank.floats(&[rank.rank as f32 + 1.0; 2]);
            let part = |index: usize| Arc::new(DevicePart::new(whole.clone(), 4 * index..4 * index + 4).unwrap());
            let mut group = Group::new();
            group.all_gather(&rank.comm, part(rank.rank), whole.clone(), DataType::F32).unwrap();
            complete(&rank, group);
            assert_eq!(rank.read_floats(&whole), [1.0, 2.0]);
            let mut group = Group::new();
            group.reduce_scatter(&rank.comm, whole.clone(), part(rank.rank), DataType::F32, ReduceOp::Sum).unwrap();
            complete(&rank, group);
            assert_eq!(rank.read_floats(&whole)[rank.rank], [2.0, 4.0][rank.rank]);
            let error = Group::new().all_gather(&rank.comm, part(1 - rank.rank), whole.clone(), DataType::F32);
            assert!(matches!(error, Err(NcclError::Misuse { call: "ncclAllGather", .. })));
            rank.leave();
        });
    });
}

#[test]
fn broadcast_copies_the_roots() {
    Case::new("operations::broadcast_copies_the_roots").run(|| {
        ranks(3, |rank| {
            let buffer = rank.bytes(&[rank.rank as u8; 5]);
            let mut group = Group::new();
            group.broadcast(&rank.comm, buffer.clone(), DataType::U8, 2).unwrap();
            complete(&rank, group);
            assert_eq!(rank.read(&buffer), [2; 5]);
            rank.leave();
        });
    });
}

#[test]
fn a_rank_sends_itself_in_a_group() {
    Case::new("operations::a_rank_sends_itself_in_a_group").run(|| {
        ranks(1, |rank| {
            let to: Shared = Arc::new(DeviceBytes::new(&rank.stream, 3).unwrap());
            let mut group = Group::new();
            group.send(&rank.comm, rank.bytes(&[1, 2, 3]), DataType::U8, 0).unwrap();
            group.recv(&rank.comm, to.clone(), DataType::U8, 0).unwrap();
            complete(&rank, group);
            assert_eq!(rank.read(&to), [1, 2, 3]);
            rank.leave();
        });
    });
}

#[test]
fn an_operation_on_nothing_is_nothing() {
    Case::new("operations::an_operation_on_nothing_is_nothing").run(|| {
        ranks(2, |rank| {
            let nothing = || rank.bytes(&[]);
            let mut group = Group::new();
            group.send(&rank.comm, nothing(), DataType::F32, 1 - rank.rank).unwrap();
            group.recv(&rank.comm, nothing(), DataType::F32, 1 - rank.rank).unwrap();
            group.all_gather(&rank.comm, nothing(), nothing(), DataType::F64).unwrap();
            group.broadcast(&rank.comm, nothing(), DataType::F64, 0).unwrap();
            complete(&rank, group);
            complete(&rank, Group::new());
            rank.leave();
        });
    });
}

#[test]
fn groups_may_span_communicators_in_any_order() {
    Case::new("operations::groups_may_span_communicators_in_any_order").run(|| {
        ranks(2, |rank| {
            let other = rank.comm.split(Some(0), rank.rank as i32, &CommConfig::default(), LIMIT).unwrap().unwrap();
            let peer = 1 - rank.rank;
            for turn in 0..4_u8 {
                let to: [Shared; 2] = [(); 2].map(|()| Arc::new(DeviceBytes::new(&rank.stream, 1).unwrap()) as Shared);
                let mut comms = [&rank.comm, &other];
                if turn % 2 == 1 {
                    comms.reverse();
                }
                let mut group = Group::new();
                for (comm, to) in comms.into_iter().zip(&to) {
                    group.send(comm, rank.bytes(&[turn]), DataType::U8, peer).unwrap();
                    group.recv(comm, to.clone(), DataType::U8, peer).unwrap();
                }
                complete(&rank, group);
                assert!(to.iter().all(|to| rank.read(to) == [turn]));
            }
            other.finalize(LIMIT).unwrap();
            rank.leave();
        });
    });
}

#[test]
fn threads_may_share_communicators() {
    Case::new("operations::threads_may_share_communicators").run(|| {
        ranks(2, |rank| {
            // Sums of the same: which thread's comes first on a rank does not matter.
            let other = rank.comm.split(Some(0), 0, &CommConfig::default(), LIMIT).unwrap().unwrap();
            std::thread::scope(|scope| {
                for comm in [&rank.comm, &other] {
                    let device = rank.comm.device();
                    scope.spawn(move || {
                        let stream = Stream::new(device).unwrap();
                        for _ in 0..20 {
                            let memory: Shared = Arc::new(DeviceBytes::from_host(&stream, &[3]).unwrap());
                            let mut group = Group::new();
                            group
                                .all_reduce(comm, memory.clone(), memory.clone(), DataType::U8, ReduceOp::Sum)
                                .unwrap();
                            group.launch(&stream, LIMIT).unwrap().wait(LIMIT).unwrap();
                            assert_eq!(memory.to_host(&stream, LIMIT).unwrap(), [6]);
                        }
                    });
                }
            });
            other.finalize(LIMIT).unwrap();
            rank.leave();
        });
    });
}

#[test]
fn threads_may_name_communicators_in_any_order() {
    Case::new("operations::threads_may_name_communicators_in_any_order").run(|| {
        let device = Device::new(0).unwrap();
        let alone = || Comm::init(&device, UniqueId::new().unwrap(), 1, 0, &CommConfig::default(), LIMIT).unwrap();
        let comms = [alone(), alone()];
        // Begun at once, often: in different orders they would soon wait for each other for ever.
        let begin = Barrier::new(2);
        std::thread::scope(|scope| {
            for order in [[0, 1], [1, 0]] {
                let (comms, device, begin) = (&comms, &device, &begin);
                scope.spawn(move || {
                    let stream = Stream::new(device).unwrap();
                    for _ in 0..500 {
                        begin.wait();
                        let mut group = Group::new();
                        for index in order {
                            let memory = Arc::new(DeviceBytes::from_host(&stream, &[3]).unwrap());
                            group.broadcast(&comms[index], memory, DataType::U8, 0).unwrap();
                        }
                        group.launch(&stream, LIMIT).unwrap().wait(LIMIT).unwrap();
                    }
                });
            }
        });
        for comm in comms {
            comm.finalize(LIMIT).unwrap();
        }
    });
}

/// That it is misuse, and why.
#[track_caller]
fn reason<T: std::fmt::Debug>(result: Result<T, NcclError>) -> String {
    match result.unwrap_err() {
        NcclError::Misuse { reason, .. } => reason,
        error => panic!("{error:?}"),
    }
}

#[test]
fn what_cannot_be_is_refused_with_a_reason() {
    Case::new("operations::what_cannot_be_is_refused_with_a_reason").run(|| {
        ranks(2, |rank| {
            let Rank { comm, stream, .. } = &rank;
            let dtype = DataType::F32;
            let four = || rank.bytes(&[0; 4]);
            let mut group = Group::new();
            assert_eq!(reason(group.send(comm, four(), dtype, 2)), "rank 2 of 2 does not exist: the last is 1");
            assert!(reason(group.recv(comm, four(), dtype, usize::MAX)).starts_with("rank 18446744073709551615 of 2"));
            let uneven = group.send(comm, rank.bytes(&[0; 6]), dtype, 1);
            assert_eq!(reason(uneven), "6 bytes are not a whole number of F32, which take 4 each");
            let gathered = group.all_gather(comm, four(), four(), dtype);
            assert_eq!(reason(gathered), "4 bytes are not 2 times 4, one for each of its parts");
            let unequal = group.all_reduce(comm, four(), rank.bytes(&[0; 8]), dtype, ReduceOp::Sum);
            assert_eq!(reason(unequal), "8 bytes are not 1 times 4, one for each of its parts");
            // None of it became part of the group.
            complete(&rank, group);
            let mut alone = Group::new();
            alone.send(comm, four(), dtype, rank.rank).unwrap();
            let text = reason(alone.launch(stream, LIMIT));
            assert!(text.contains("sends itself [(1, F32)] and receives [] from itself"), "{text}");
            let (shared, mut twice) = (four(), Group::new());
            twice.send(comm, shared.clone(), dtype, 1 - rank.rank).unwrap();
            twice.recv(comm, shared, dtype, 1 - rank.rank).unwrap();
            assert!(reason(twice.launch(stream, LIMIT)).contains("also used by another operation of the group"));
            // All of it was refused before NCCL heard of it.
            around(&rank, 8, dtype);
            rank.leave();
        });
    });
}

#[test]
fn what_is_of_another_device_is_refused() {
    Case::new("operations::what_is_of_another_device_is_refused").run(|| {
        let [device, other] = [0, 1].map(|ordinal| Device::new(ordinal).unwrap());
        let comm = Comm::init(&device, UniqueId::new().unwrap(), 1, 0, &CommConfig::default(), LIMIT).unwrap();
        let stream = Stream::new(&device).unwrap();
        let (slices, elsewhere) = cudarc_stream(&other);
        let memory: [Shared; 2] = [
            Arc::new(DeviceBytes::from_host(&elsewhere, &[1]).unwrap()),
            Arc::new(slices.clone_htod(&[1_u8]).unwrap()),
        ];
        for buffer in memory {
            let error = Group::new().broadcast(&comm, buffer, DataType::U8, 0);
            assert_eq!(reason(error), "a buffer is not on the communicator's device, which is GPU 0");
        }
        let mut group = Group::new();
        group.broadcast(&comm, Arc::new(DeviceBytes::from_host(&stream, &[1]).unwrap()), DataType::U8, 0).unwrap();
        let text = reason(group.launch(&elsewhere, Duration::ZERO));
        assert!(text.starts_with("its communicator is of GPU 0, but the stream is of GPU 1"), "{text}");
        comm.finalize(LIMIT).unwrap();
        elsewhere.settle(LIMIT).unwrap();
        stream.settle(LIMIT).unwrap();
    });
}
