//! How communicators are made, divided, left and aborted.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use nccl_rs::cudarc::driver::CudaContext;
use nccl_rs::{
    AbortHandle, Comm, CommConfig, CommStatus, DataType, Device, DeviceBytes, Group, NcclError, ReduceOp, Shared,
    Stream, UniqueId,
};

use crate::support::{Case, LIMIT, Rank, SHORT, comes_about, ranks};

/// A receive that nobody sends for.
fn receive(rank: &Rank) -> Result<nccl_rs::InFlight, NcclError> {
    let to: Shared = Arc::new(DeviceBytes::new(&rank.stream, 4).unwrap());
    let mut group = Group::new();
    group.recv(&rank.comm, to, DataType::F32, 1 - rank.rank).unwrap();
    group.launch(&rank.stream, LIMIT)
}

#[test]
fn ranks_know_their_places() {
    Case::new("comms::ranks_know_their_places").run(|| {
        ranks(4, |rank| {
            assert_eq!((rank.comm.n_ranks(), rank.comm.rank()), (4, rank.rank));
            assert_eq!(rank.comm.device().context().ordinal(), rank.rank);
            assert_eq!(rank.comm.status(), CommStatus::Ready);
            let handle = rank.comm.abort_handle();
            assert_eq!(handle.status(), CommStatus::Ready);
            rank.leave();
            assert_eq!(handle.status(), CommStatus::Aborted);
            handle.abort();
        });
    });
}

#[test]
fn a_rank_that_nobody_joins_gives_up() {
    Case::new("comms::a_rank_that_nobody_joins_gives_up").run(|| {
        let device = Device::new(0).unwrap();
        let begun = Instant::now();
        let error = Comm::init(&device, UniqueId::new().unwrap(), 2, 0, &CommConfig::default(), SHORT).unwrap_err();
        assert_eq!(error, NcclError::Deadline { call: "ncclCommInitRankConfig", limit: SHORT });
        assert!(begun.elapsed() < LIMIT);
        let wrong = Comm::init(&device, UniqueId::new().unwrap(), 2, 2, &CommConfig::default(), SHORT).unwrap_err();
        assert!(matches!(wrong, NcclError::Misuse { .. }), "{wrong:?}");
    });
}

#[test]
fn two_ranks_of_one_number_are_told_what_nccl_says() {
    Case::new("comms::two_ranks_of_one_number_are_told_what_nccl_says").run(|| {
        let id = UniqueId::new().unwrap();
        thread::scope(|scope| {
            for ordinal in 0..2 {
                scope.spawn(move || {
                    let device = Device::new(ordinal).unwrap();
                    let error = Comm::init(&device, id, 2, 1, &CommConfig::default(), Duration::from_secs(2));
                    assert!(matches!(error, Err(NcclError::Nccl { .. } | NcclError::Deadline { .. })), "{error:?}");
                });
            }
        });
    });
}

#[test]
fn a_watchdog_ends_a_wait() {
    Case::new("comms::a_watchdog_ends_a_wait").run(|| {
        ranks(2, |rank| {
            let mut in_flight = receive(&rank).unwrap();
            let handle = rank.comm.abort_handle();
            let watchdog = thread::spawn(move || {
                thread::sleep(SHORT);
                handle.abort();
                assert_eq!(handle.status(), CommStatus::Aborted);
            });
            assert!(matches!(in_flight.wait(Duration::ZERO), Err(NcclError::Deadline { .. })));
            let error = in_flight.wait(LIMIT).unwrap_err();
            watchdog.join().unwrap();
            // One of the two may hear first that the other is gone.
            assert!(matches!(error, NcclError::Aborted { .. } | NcclError::Nccl { .. }), "{error:?}");
            assert!(matches!(in_flight.is_complete(), Err(NcclError::Aborted { .. })));
            assert_eq!(rank.comm.status(), CommStatus::Aborted);
            let mut group = Group::new();
            group.send(&rank.comm, rank.bytes(&[0; 4]), DataType::F32, 1 - rank.rank).unwrap();
            assert!(matches!(group.launch(&rank.stream, LIMIT), Err(NcclError::Aborted { .. })));
            assert!(matches!(rank.comm.finalize(LIMIT), Err(NcclError::Aborted { .. })));
            // The stream has come past it.
            rank.stream.settle(LIMIT).unwrap();
        });
    });
}

#[test]
fn aborts_may_come_from_all_sides_at_once() {
    Case::new("comms::aborts_may_come_from_all_sides_at_once").run(|| {
        for round in 0..6 {
            ranks(2, |rank| {
                // The other rank may be gone already.
                let in_flight = receive(&rank).ok();
                let handle = rank.comm.abort_handle();
                let Rank { comm, stream, .. } = rank;
                thread::scope(|scope| {
                    for _ in 0..3 {
                        scope.spawn(|| handle.abort());
                    }
                    scope.spawn(|| while handle.status() != CommStatus::Aborted {});
                    match round % 3 {
                        0 => drop(comm),
                        1 => assert!(comm.finalize(LIMIT).is_err()),
                        _ => comm.abort_handle().abort(),
                    }
                });
                drop(in_flight);
                stream.settle(LIMIT).unwrap();
            });
        }
    });
}

#[test]
fn several_are_aborted_at_once() {
    Case::new("comms::several_are_aborted_at_once").run(|| {
        let both_launched = Barrier::new(2);
        ranks(2, |rank| {
            let other = rank.comm.split(Some(0), rank.rank as i32, &CommConfig::default(), LIMIT).unwrap().unwrap();
            let in_flight = receive(&rank).unwrap();
            both_launched.wait();
            let handles = [rank.comm.abort_handle(), other.abort_handle(), other.abort_handle()];
            AbortHandle::abort_all(&handles);
            assert!(handles.iter().all(|handle| handle.status() == CommStatus::Aborted));
            assert!(matches!(in_flight.is_complete(), Err(NcclError::Aborted { .. })));
            rank.stream.settle(LIMIT).unwrap();
        });
    });
}

#[test]
fn ranks_are_divided_by_color_and_ordered_by_key() {
    Case::new("comms::ranks_are_divided_by_color_and_ordered_by_key").run(|| {
        ranks(5, |rank| {
            // Ranks 0 and 2, 1 and 3 the other way around, 4 in none.
            let color = (rank.rank < 4).then_some(rank.rank as u32 % 2);
            let part = rank.comm.split(color, -(rank.rank as i32), &CommConfig::default(), LIMIT).unwrap();
            assert_eq!(part.is_some(), rank.rank < 4);
            if let Some(part) = part {
                assert_eq!((part.n_ranks(), part.rank()), (2, 1 - rank.rank / 2));
                let memory = rank.floats(&[rank.rank as f32]);
                let mut group = Group::new();
                group.all_reduce(&part, memory.clone(), memory.clone(), DataType::F32, ReduceOp::Sum).unwrap();
                group.launch(&rank.stream, LIMIT).unwrap().wait(LIMIT).unwrap();
                assert_eq!(rank.read_floats(&memory), [[2.0, 4.0][rank.rank % 2]]);
                part.finalize(LIMIT).unwrap();
            }
            assert_eq!(rank.comm.status(), CommStatus::Ready);
            let large = rank.comm.split(Some(u32::MAX), 0, &CommConfig::default(), LIMIT).unwrap_err();
            assert!(matches!(large, NcclError::Misuse { .. }));
            rank.leave();
        });
    });
}

#[test]
fn a_division_that_not_all_join_gives_up_and_aborts() {
    Case::new("comms::a_division_that_not_all_join_gives_up_and_aborts").run(|| {
        ranks(2, |rank| {
            if rank.rank == 0 {
                let error = rank.comm.split(Some(0), 0, &CommConfig::default(), SHORT).unwrap_err();
                assert!(matches!(error, NcclError::Deadline { call: "ncclCommSplit", limit: SHORT }), "{error:?}");
                assert_eq!(rank.comm.status(), CommStatus::Aborted);
            } else {
                assert!(comes_about(|| matches!(rank.comm.status(), CommStatus::Failed(_))));
            }
        });
    });
}

#[test]
fn finalize_waits_for_what_was_launched() {
    Case::new("comms::finalize_waits_for_what_was_launched").faults("slow=50").run(|| {
        ranks(2, |rank| {
            let to: Shared = Arc::new(DeviceBytes::new(&rank.stream, 4).unwrap());
            let mut group = Group::new();
            group.send(&rank.comm, rank.bytes(&[5; 4]), DataType::F32, 1 - rank.rank).unwrap();
            group.recv(&rank.comm, to.clone(), DataType::F32, 1 - rank.rank).unwrap();
            let in_flight = group.launch(&rank.stream, LIMIT).unwrap();
            assert!(!in_flight.is_complete().unwrap());
            let Rank { comm, stream, .. } = rank;
            comm.finalize(LIMIT).unwrap();
            in_flight.event().wait(LIMIT).unwrap();
            assert!(in_flight.is_complete().unwrap());
            assert_eq!(to.to_host(&stream, LIMIT).unwrap(), [5; 4]);
        });
    });
}

#[test]
fn finalize_gives_up_and_aborts() {
    Case::new("comms::finalize_gives_up_and_aborts").run(|| {
        let n_late = AtomicUsize::new(0);
        ranks(2, |rank| {
            let in_flight = receive(&rank).unwrap();
            let handle = rank.comm.abort_handle();
            match rank.comm.finalize(SHORT) {
                Err(NcclError::Deadline { call: "ncclCommFinalize", .. }) => {
                    n_late.fetch_add(1, Ordering::SeqCst);
                }
                // The other gave up first.
                Err(NcclError::Nccl { .. }) => {}
                result => panic!("{result:?}"),
            }
            assert_eq!(handle.status(), CommStatus::Aborted);
            assert!(matches!(in_flight.is_complete(), Err(NcclError::Aborted { .. })));
            rank.stream.settle(LIMIT).unwrap();
        });
        assert!(n_late.into_inner() > 0);
    });
}

#[test]
fn a_communicator_dropped_is_aborted() {
    Case::new("comms::a_communicator_dropped_is_aborted").run(|| {
        ranks(2, |rank| {
            let handle = rank.comm.abort_handle();
            let stream: Stream = rank.stream.clone();
            drop(rank);
            assert_eq!(handle.status(), CommStatus::Aborted);
            stream.settle(LIMIT).unwrap();
        });
    });
}

#[test]
fn a_context_that_nccl_does_not_work_in_is_refused() {
    Case::new("comms::a_context_that_nccl_does_not_work_in_is_refused").run(|| {
        assert!(Device::count().unwrap() > 0);
        let device = Device::of(CudaContext::new_non_primary(0, 0).unwrap());
        let error = Comm::init(&device, UniqueId::new().unwrap(), 1, 0, &CommConfig::default(), LIMIT).unwrap_err();
        assert!(matches!(error, NcclError::Misuse { call: "ncclCommInitRankConfig", .. }), "{error}");
    });
}
