//! How communicators are made, divided, left and aborted.

use std::ffi::{CStr, c_int};
use std::time::{Duration, Instant};

use cuda_emulator::abi::nccl::{self, CommHandle, Config};
use cuda_emulator::driver;
use cuda_emulator::nccl::kinds::{Code, DataType, ReduceOp};

use crate::rank::{
    Barrier, LIMIT, Rank, begin, context, draw, f32s, last_error, ranks, result, settled, status, threads,
};

fn non_blocking() -> Config {
    Config { blocking: 0, ..Config::unset() }
}

#[test]
fn the_version_and_the_texts_are_told() {
    let mut version = 0;
    // SAFETY: `version` may be written.
    result(unsafe { nccl::ncclGetVersion(&mut version) }).unwrap();
    assert_eq!(version, 23_004);
    // SAFETY: null is refused.
    assert_eq!(result(unsafe { nccl::ncclGetVersion(std::ptr::null_mut()) }), Err(Code::InvalidArgument));
    assert!(last_error(std::ptr::null_mut()).contains("version is null"));
    for number in [0, 5, 99] {
        // SAFETY: every text is constant.
        assert!(!unsafe { CStr::from_ptr(nccl::ncclGetErrorString(number)) }.is_empty());
    }
}

#[test]
fn until_all_are_there_it_is_in_progress_and_cannot_be_used() {
    let (id, looked) = (draw(), Barrier::new(2));
    threads(2, id, |id, number| {
        if number == 1 {
            looked.wait();
            return Rank::join(id, 2, 1).leave();
        }
        let rank = Rank::begin(id, 2, 0, non_blocking());
        assert_eq!(status(rank.handle()), Code::InProgress);
        let memory = rank.memory(&[1]);
        let mut count = 0;
        // SAFETY: `count` may be written.
        let counted = unsafe { nccl::ncclCommCount(rank.handle(), &mut count) };
        assert_eq!(result(counted), Err(Code::InvalidUsage));
        assert_eq!(rank.send(memory, 1, DataType::U8, 1), Err(Code::InvalidUsage));
        assert_eq!(result(nccl::ncclCommFinalize(rank.handle())), Err(Code::InvalidUsage));
        assert!(last_error(std::ptr::null_mut()).contains("earlier call is not done"));
        looked.wait();
        assert_eq!(settled(rank.handle()), Code::Success);
        let (mut own, mut device) = (-1, -1);
        // SAFETY: all three may be written.
        unsafe {
            result(nccl::ncclCommCount(rank.handle(), &mut count)).unwrap();
            result(nccl::ncclCommUserRank(rank.handle(), &mut own)).unwrap();
            result(nccl::ncclCommCuDevice(rank.handle(), &mut device)).unwrap();
        }
        assert_eq!((count, own, device), (2, 0, 0));
        rank.leave();
    });
}

#[test]
fn configurations_are_checked() {
    context(0);
    let refused = [
        Config { magic: 1, ..non_blocking() },
        Config { size: 8, ..non_blocking() },
        Config { size: 1 << 40, ..non_blocking() },
        Config { version: 0, ..non_blocking() },
        Config { blocking: 2, ..non_blocking() },
        Config { max_ctas: 0, ..non_blocking() },
        Config { min_ctas: 4, max_ctas: 2, ..non_blocking() },
    ];
    for config in refused {
        assert_eq!(begin(draw(), 1, 0, config), Err(Code::InvalidArgument), "{config:?}");
    }
    for (n_ranks, rank) in [(0, 0), (2, 2), (5000, 0)] {
        assert_eq!(begin(draw(), n_ranks, rank, non_blocking()), Err(Code::InvalidArgument), "{rank} of {n_ranks}");
    }
    // A shorter one of an older version is fine; reports name the communicator as a newer one says.
    for (size, version) in [(20, 21_400), (40, 21_700), (44, 21_800)] {
        let old = begin(draw(), 1, 0, Config { size, version, ..non_blocking() }).unwrap();
        assert_eq!(settled(old as CommHandle), Code::Success);
        result(nccl::ncclCommDestroy(old as CommHandle)).unwrap();
    }
    let named = begin(draw(), 1, 0, Config { comm_name: c"the name".as_ptr(), ..non_blocking() }).unwrap();
    assert_eq!(settled(named as CommHandle), Code::Success);
    result(nccl::ncclCommFinalize(named as CommHandle)).unwrap();
    assert_eq!(settled(named as CommHandle), Code::Success);
    assert_eq!(result(nccl::ncclGroupStart()), Ok(()));
    assert_eq!(result(nccl::ncclGroupEnd()), Ok(()));
    assert_eq!(result(nccl::ncclCommFinalize(named as CommHandle)), Err(Code::InvalidUsage), "only once");
    assert!(last_error(std::ptr::null_mut()).contains("\"the name\""));
    result(nccl::ncclCommDestroy(named as CommHandle)).unwrap();
}

#[test]
fn what_cannot_be_made_fails_on_all_ranks() {
    // Two ranks of one number.
    let failed = threads(2, draw(), |id, number| {
        context(number);
        let comm = begin(id, 2, 0, non_blocking()).unwrap() as CommHandle;
        let said = (settled(comm), last_error(comm));
        result(nccl::ncclCommAbort(comm)).unwrap();
        said
    });
    for (code, text) in failed {
        assert_eq!(code, Code::InvalidUsage);
        assert!(text.contains("say that they are rank 0"), "{text}");
    }
    // Two ranks on one device.
    let failed = threads(2, draw(), |id, number| {
        context(3);
        let comm = begin(id, 2, number, non_blocking()).unwrap() as CommHandle;
        let said = (settled(comm), last_error(comm));
        result(nccl::ncclCommAbort(comm)).unwrap();
        said
    });
    for (code, text) in failed {
        assert_eq!(code, Code::InvalidUsage);
        assert!(text.contains("both on device 3"), "{text}");
    }
}

#[test]
fn blocking_ones_are_ready_when_the_call_or_its_group_is_over() {
    threads(2, draw(), |id, number| {
        let rank = Rank::begin(id, 2, number, Config::unset());
        let memory = rank.memory(&f32s(&[1.0]));
        rank.all_reduce(memory, memory, 1, DataType::F32, ReduceOp::Sum).unwrap();
        assert_eq!(rank.bytes(memory, 4), f32s(&[2.0]));
        result(nccl::ncclCommFinalize(rank.handle())).unwrap();
        result(nccl::ncclCommDestroy(rank.handle())).unwrap();
    });
    // Both ranks of one thread.
    let id = draw();
    context(0);
    let mut comms: [CommHandle; 2] = [std::ptr::null_mut(); 2];
    result(nccl::ncclGroupStart()).unwrap();
    for (rank, comm) in comms.iter_mut().enumerate() {
        driver::set_current(Some(driver::make(rank).unwrap())).unwrap();
        // SAFETY: `comm` may be written.
        result(unsafe { nccl::ncclCommInitRank(comm, 2, id, rank as c_int) }).unwrap();
    }
    result(nccl::ncclGroupEnd()).unwrap();
    assert_eq!(comms.map(status), [Code::Success; 2]);
    comms.into_iter().for_each(|comm| result(nccl::ncclCommAbort(comm)).unwrap());
}

fn split(rank: &Rank, color: c_int, key: c_int) -> Option<Rank> {
    let mut new = std::ptr::null_mut();
    let mut config = non_blocking();
    // SAFETY: `new` may be written, and the configuration is as long as it says.
    result(unsafe { nccl::ncclCommSplit(rank.handle(), color, key, &mut new, (&raw mut config).cast()) }).unwrap();
    assert_eq!(settled(rank.handle()), Code::Success);
    (!new.is_null()).then(|| {
        assert_eq!(settled(new), Code::Success, "{}", last_error(new));
        let mut number = -1;
        // SAFETY: `number` may be written.
        result(unsafe { nccl::ncclCommUserRank(new, &mut number) }).unwrap();
        Rank { comm: new as usize, rank: number as usize, ..*rank }
    })
}

#[test]
fn ranks_of_one_color_are_together_in_the_order_of_their_keys() {
    let places = ranks(5, |rank| {
        let color = [1, 0, 1, -1, 0][rank.rank];
        let child = split(&rank, color, -(rank.rank as c_int));
        let place = child.map(|child| {
            let memory = child.memory(&f32s(&[rank.rank as f32]));
            child.all_reduce(memory, memory, 1, DataType::F32, ReduceOp::Sum).unwrap();
            let sum = child.bytes(memory, 4);
            child.leave();
            (child.rank, sum)
        });
        // The whole still works.
        let memory = rank.memory(&f32s(&[1.0]));
        rank.all_reduce(memory, memory, 1, DataType::F32, ReduceOp::Sum).unwrap();
        assert_eq!(rank.bytes(memory, 4), f32s(&[5.0]));
        place
    });
    let sum = |x| f32s(&[x]);
    let expected = [Some((1, sum(2.0))), Some((1, sum(5.0))), Some((0, sum(2.0))), None, Some((0, sum(5.0)))];
    assert_eq!(places, expected);
}

#[test]
fn finalizing_waits_for_what_was_launched_and_for_the_others() {
    let looked = Barrier::new(2);
    threads(2, draw(), |id, number| {
        let rank = Rank::join(id, 2, number);
        let memory = rank.memory(&[number as u8 + 1]);
        if number == 0 {
            rank.send(memory, 1, DataType::U8, 1).unwrap();
            result(nccl::ncclCommFinalize(rank.handle())).unwrap();
            std::thread::sleep(Duration::from_millis(50));
            assert_eq!(status(rank.handle()), Code::InProgress);
            looked.wait();
        } else {
            looked.wait();
            rank.recv(memory, 1, DataType::U8, 0).unwrap();
            assert_eq!(rank.bytes(memory, 1), [1]);
            result(nccl::ncclCommFinalize(rank.handle())).unwrap();
        }
        assert_eq!(settled(rank.handle()), Code::Success);
        result(nccl::ncclCommDestroy(rank.handle())).unwrap();
    });
}

#[test]
fn an_operation_with_a_rank_that_has_left_fails() {
    let joined = Barrier::new(2);
    threads(2, draw(), |id, number| {
        let rank = Rank::join(id, 2, number);
        joined.wait();
        let memory = rank.memory(&[1]);
        if number == 0 {
            result(nccl::ncclCommDestroy(rank.handle())).unwrap();
            return;
        }
        // It may fail at once.
        let _ = rank.send(memory, 1, DataType::U8, 0);
        assert_eq!(wait_for_failure(rank.handle()), Code::RemoteError);
        assert!(last_error(rank.handle()).contains("rank 0 has left"), "{}", last_error(rank.handle()));
        rank.abort();
        rank.settle();
    });
}

pub(crate) fn wait_for_failure(comm: CommHandle) -> Code {
    let end = Instant::now() + LIMIT;
    loop {
        match status(comm) {
            Code::Success | Code::InProgress => assert!(Instant::now() < end, "no failure"),
            code => return code,
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn an_abort_from_another_thread_ends_what_runs_and_nothing_is_touched_after() {
    let (joined, aborted) = (Barrier::new(2), Barrier::new(2));
    threads(2, draw(), |id, number| {
        let rank = Rank::join(id, 2, number);
        joined.wait();
        let memory = rank.memory(&[7; 1000]);
        rank.settle();
        if number == 0 {
            aborted.wait();
            // Its peer is gone from the communicator: nothing arrives there.
            let _ = rank.send(memory, 1000, DataType::U8, 1);
            assert_eq!(wait_for_failure(rank.handle()), Code::RemoteError);
            assert!(last_error(rank.handle()).contains("rank 1"), "{}", last_error(rank.handle()));
            return rank.abort();
        }
        rank.recv(memory, 1000, DataType::U8, 0).unwrap();
        rank.recv(memory, 1000, DataType::U8, 0).unwrap();
        assert!(!driver::query_stream(rank.stream).unwrap());
        std::thread::spawn(move || rank.abort()).join().unwrap();
        // The stream goes on, the memory is as it was and can be freed.
        assert_eq!(rank.bytes(memory, 1000), [7; 1000]);
        driver::free(memory).unwrap();
        aborted.wait();
    });
}

#[test]
fn an_abort_while_it_is_made_ends_that() {
    let rank = Rank::begin(draw(), 2, 0, non_blocking());
    assert_eq!(status(rank.handle()), Code::InProgress);
    let begun = Instant::now();
    rank.abort();
    assert!(begun.elapsed() < LIMIT);
}

#[test]
fn a_handle_that_is_gone_is_refused() {
    let rank = Rank::join(draw(), 1, 0);
    rank.abort();
    assert_eq!(result(nccl::ncclCommAbort(rank.handle())), Err(Code::InvalidArgument));
    assert_eq!(result(nccl::ncclCommDestroy(std::ptr::null_mut())), Err(Code::InvalidArgument));
    assert!(last_error(std::ptr::null_mut()).contains("null"));
}
