//! Groups: atomic, nested, of the thread that calls them.

use std::ffi::c_int;

use cuda_emulator::abi::nccl::{self, Config};
use cuda_emulator::driver;
use cuda_emulator::nccl::kinds::{Code, DataType, ReduceOp};

use crate::rank::{Barrier, Rank, draw, f32s, last_error, ranks, result, status, threads};

const F32: DataType = DataType::F32;

#[test]
fn both_sides_may_send_first_in_a_group() {
    ranks(2, |rank| {
        let (from, to) = (rank.memory(&f32s(&[rank.rank as f32 + 5.0])), rank.memory(&f32s(&[0.0])));
        let peer = 1 - rank.rank;
        rank.group(|| {
            rank.send(from, 1, F32, peer).unwrap();
            rank.recv(to, 1, F32, peer).unwrap();
        })
        .unwrap();
        assert_eq!(rank.bytes(to, 4), f32s(&[peer as f32 + 5.0]));
    });
}

#[test]
fn groups_nest_and_hold_all_kinds_also_to_oneself() {
    ranks(2, |rank| {
        let memory: Vec<u64> = (0..5).map(|i| rank.memory(&f32s(&[(10 * i + rank.rank) as f32]))).collect();
        let peer = 1 - rank.rank;
        rank.group(|| {
            rank.group(|| rank.send(memory[0], 1, F32, peer).unwrap()).unwrap();
            rank.all_reduce(memory[1], memory[1], 1, F32, ReduceOp::Sum).unwrap();
            rank.group(|| {
                rank.recv(memory[2], 1, F32, peer).unwrap();
                rank.send(memory[3], 1, F32, rank.rank).unwrap();
                rank.recv(memory[4], 1, F32, rank.rank).unwrap();
            })
            .unwrap();
            // Nothing of it has been launched.
            assert_ne!(status(rank.handle()), Code::InvalidUsage);
        })
        .unwrap();
        let values: Vec<Vec<u8>> = memory.iter().map(|&memory| rank.bytes(memory, 4)).collect();
        assert_eq!(values[1..3], [f32s(&[21.0]), f32s(&[peer as f32])]);
        assert_eq!(values[4], f32s(&[(30 + rank.rank) as f32]));
    });
}

#[test]
fn a_group_on_several_streams_is_complete_together() {
    ranks(2, |rank| {
        let other = rank.on(driver::create_stream(false).unwrap());
        let (from, to) = (rank.memory(&[7]), other.memory(&[0]));
        if rank.rank == 0 {
            rank.group(|| {
                rank.send(from, 1, DataType::U8, 1).unwrap();
                other.send(to, 1, DataType::U8, 1).unwrap();
            })
            .unwrap();
        } else {
            rank.group(|| {
                rank.recv(from, 1, DataType::U8, 0).unwrap();
                other.recv(to, 1, DataType::U8, 0).unwrap();
            })
            .unwrap();
        }
        // Each stream is ordered after both.
        assert_eq!(rank.bytes(to, 1), [0]);
        assert_eq!(other.bytes(from, 1), [7]);
    });
}

#[test]
fn a_call_that_is_refused_spoils_its_group() {
    let both = Barrier::new(2);
    threads(2, draw(), |id, number| {
        let rank = Rank::join(id, 2, number);
        let memory = rank.memory(&f32s(&[1.0, 2.0]));
        let grouped = rank.group(|| {
            rank.send(memory, 1, F32, 1 - rank.rank).unwrap();
            assert_eq!(rank.recv(memory, 1, F32, 2), Err(Code::InvalidArgument));
            assert!(last_error(std::ptr::null_mut()).contains("no rank 2 among 2"));
        });
        assert_eq!(grouped, Err(Code::InvalidArgument));
        // Nothing of it was launched.
        rank.settle();
        assert_eq!(result(nccl::ncclGroupEnd()), Err(Code::InvalidUsage), "the group is over");
        for dtype in [0, 3, 10] {
            let (comm, stream) = (rank.handle(), rank.stream as *mut _);
            let sent = nccl::ncclSend(memory as *const _, 1, dtype as c_int, 0, comm, stream);
            assert_eq!(result(sent), Err(Code::InvalidArgument));
        }
        assert_eq!(rank.send(memory, usize::MAX / 4, F32, 1 - rank.rank), Err(Code::InvalidArgument));
        assert_eq!(rank.send(0, 1, F32, 1 - rank.rank), Err(Code::InvalidArgument));
        assert_eq!(rank.send(memory, 1, F32, rank.rank), Err(Code::InvalidUsage), "to itself without a receive");
        both.wait();
        rank.abort();
    });
}

#[test]
fn with_one_communicator_that_blocks_and_one_that_does_not_there_is_no_group() {
    let (first, second) = (draw(), draw());
    threads(2, first, |_, number| {
        let rank = Rank::join(first, 2, number);
        let mut blocking = std::ptr::null_mut();
        let mut config = Config { blocking: 1, ..Config::unset() };
        // SAFETY: `blocking` may be written, and the configuration is as long as it says.
        let made = unsafe {
            nccl::ncclCommInitRankConfig(&mut blocking, 2, second, number as c_int, (&raw mut config).cast())
        };
        assert_eq!((result(made), status(blocking)), (Ok(()), Code::Success));
        let blocking = Rank { comm: blocking as usize, ..rank };
        let memory = rank.memory(&[1, 2]);
        let grouped = rank.group(|| {
            rank.send(memory, 1, DataType::U8, 1 - number).unwrap();
            blocking.recv(memory + 1, 1, DataType::U8, 1 - number).unwrap();
        });
        assert_eq!(grouped, Err(Code::InvalidArgument));
        // By itself it does what it should.
        blocking.all_reduce(memory, memory, 1, DataType::U8, ReduceOp::Sum).unwrap();
        assert_eq!(rank.bytes(memory, 1), [2]);
        blocking.leave();
        rank.leave();
    });
}

#[test]
fn an_event_recorded_before_the_launch_was_asked_for_is_before_it() {
    threads(1, draw(), |id, _| {
        let rank = Rank::join(id, 1, 0);
        let memory = rank.memory(&[1, 2]);
        rank.settle();
        result(nccl::ncclGroupStart()).unwrap();
        let (comm, stream) = (rank.handle(), rank.stream as *mut _);
        result(nccl::ncclSend(memory as *const _, 1, 1, 0, comm, stream)).unwrap();
        result(nccl::ncclRecv((memory + 1) as *mut _, 1, 1, 0, comm, stream)).unwrap();
        assert_eq!(nccl::ncclGroupEnd(), Code::InProgress as c_int);
        rank.settle();
        assert_eq!(rank.bytes(memory, 2), [1, 2], "not launched yet");
        // Nor can the communicator be used before that.
        assert_eq!(result(nccl::ncclCommFinalize(comm)), Err(Code::InvalidUsage));
        assert_eq!(status(comm), Code::Success);
        assert_eq!(rank.bytes(memory, 2), [1, 1]);
        rank.leave();
    });
}
