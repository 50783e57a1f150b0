//! What all ranks do together.

use std::ffi::{c_int, c_void};

use cuda_emulator::abi::nccl;
use cuda_emulator::nccl::kinds::{DataType, ReduceOp};
use half::{bf16, f16};

use crate::rank::{Rank, f32s, ranks, result};

const N_RANKS: usize = 3;

/// Element `at` of a rank, small enough for every type to hold every result exactly.
fn element(rank: usize, at: usize) -> i64 {
    ((rank * 5 + at * 3) % 4 + 1) as i64
}

fn encode(dtype: DataType, values: impl IntoIterator<Item = i64>) -> Vec<u8> {
    let encoded = values.into_iter().map(|value| match dtype {
        DataType::U8 => vec![value as u8],
        DataType::I32 => (value as i32).to_le_bytes().to_vec(),
        DataType::I64 => value.to_le_bytes().to_vec(),
        DataType::F16 => f16::from_f32(value as f32).to_le_bytes().to_vec(),
        DataType::Bf16 => bf16::from_f32(value as f32).to_le_bytes().to_vec(),
        DataType::F32 => (value as f32).to_le_bytes().to_vec(),
        DataType::F64 => (value as f64).to_le_bytes().to_vec(),
    });
    encoded.collect::<Vec<_>>().concat()
}

fn reduced(op: ReduceOp, at: usize) -> i64 {
    let all = (0..N_RANKS).map(|rank| element(rank, at));
    match op {
        ReduceOp::Sum => all.sum(),
        ReduceOp::Product => all.product(),
        ReduceOp::Max => all.max().unwrap(),
        ReduceOp::Min => all.min().unwrap(),
        ReduceOp::Average => unreachable!("the mean is no whole number: see below"),
    }
}

#[test]
fn every_type_is_reduced_every_way() {
    const COUNT: usize = 17;
    let types =
        [DataType::U8, DataType::I32, DataType::I64, DataType::F16, DataType::Bf16, DataType::F32, DataType::F64];
    ranks(N_RANKS, |rank| {
        for dtype in types {
            for op in [ReduceOp::Sum, ReduceOp::Product, ReduceOp::Max, ReduceOp::Min] {
                let from = rank.memory(&encode(dtype, (0..COUNT).map(|at| element(rank.rank, at))));
                let to = rank.memory(&vec![0; COUNT * dtype.n_bytes()]);
                rank.all_reduce(from, to, COUNT, dtype, op).unwrap();
                let expected = encode(dtype, (0..COUNT).map(|at| reduced(op, at)));
                assert_eq!(rank.bytes(to, expected.len()), expected, "{dtype} {op}");
            }
        }
        // In place, and the mean.
        let memory = rank.memory(&f32s(&[rank.rank as f32, 3.0]));
        rank.all_reduce(memory, memory, 2, DataType::F32, ReduceOp::Average).unwrap();
        assert_eq!(rank.bytes(memory, 8), f32s(&[1.0, 3.0]));
    });
}

fn rooted(rank: &Rank, reduce: bool, from: u64, to: u64, count: usize, root: usize) {
    let (from, to, dtype, root) = (from as *const c_void, to as *mut c_void, DataType::U8 as c_int, root as c_int);
    let (comm, stream, sum) = (rank.handle(), rank.stream as *mut c_void, ReduceOp::Sum as c_int);
    result(match reduce {
        true => nccl::ncclReduce(from, to, count, dtype, sum, root, comm, stream),
        false => nccl::ncclBroadcast(from, to, count, dtype, root, comm, stream),
    })
    .unwrap();
    rank.launched().unwrap();
}

#[test]
fn a_root_gives_to_all_and_takes_from_all() {
    ranks(N_RANKS, |rank| {
        for root in 0..N_RANKS {
            let memory = rank.memory(&[rank.rank as u8 + 1; 5]);
            let to = rank.memory(&[0; 5]);
            rooted(&rank, false, memory, to, 5, root);
            assert_eq!(rank.bytes(to, 5), [root as u8 + 1; 5]);
            // In place.
            rooted(&rank, true, memory, memory, 5, root);
            let expected = if rank.rank == root { 6 } else { rank.rank as u8 + 1 };
            assert_eq!(rank.bytes(memory, 5), [expected; 5]);
        }
    });
}

#[test]
fn shares_are_gathered_and_scattered_in_the_order_of_the_ranks() {
    ranks(N_RANKS, |rank| {
        let (comm, stream) = (rank.handle(), rank.stream as *mut c_void);
        let (u8s, sum) = (DataType::U8 as c_int, ReduceOp::Sum as c_int);
        let own = rank.memory(&[10 + rank.rank as u8, rank.rank as u8]);
        let all = rank.memory(&[0; 2 * N_RANKS]);
        result(nccl::ncclAllGather(own as *const c_void, all as *mut c_void, 2, u8s, comm, stream)).unwrap();
        rank.launched().unwrap();
        assert_eq!(rank.bytes(all, 2 * N_RANKS), [10, 0, 11, 1, 12, 2]);
        result(nccl::ncclReduceScatter(all as *const c_void, own as *mut c_void, 2, u8s, sum, comm, stream)).unwrap();
        rank.launched().unwrap();
        let share = [30 + 3 * rank.rank as u8, 3 * rank.rank as u8];
        assert_eq!(rank.bytes(own, 2), share);
        // In place: a rank's share is where it belongs in the whole.
        let place = (all as usize + 2 * rank.rank) as *const c_void;
        result(nccl::ncclAllGather(place, all as *mut c_void, 2, u8s, comm, stream)).unwrap();
        rank.launched().unwrap();
        assert_eq!(rank.bytes(all, 2 * N_RANKS), [10, 0, 11, 1, 12, 2]);
    });
}

#[test]
fn a_collective_is_complete_on_no_rank_before_all_have_begun() {
    let looked = crate::rank::Barrier::new(N_RANKS);
    ranks(N_RANKS, |rank| {
        let memory = rank.memory(&f32s(&[1.0]));
        if rank.rank > 0 {
            rank.all_reduce(memory, memory, 1, DataType::F32, ReduceOp::Sum).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(50));
            assert!(!cuda_emulator::driver::query_stream(rank.stream).unwrap());
        }
        looked.wait();
        if rank.rank == 0 {
            rank.all_reduce(memory, memory, 1, DataType::F32, ReduceOp::Sum).unwrap();
        }
        assert_eq!(rank.bytes(memory, 4), f32s(&[3.0]));
    });
}
