//! Ranks that are processes.

use cuda_emulator::nccl::kinds::{DataType, ReduceOp};

use crate::child;
use crate::rank::{Rank, f32s};

const F32: DataType = DataType::F32;

#[test]
fn a_ring_and_a_sum_go_over_processes() {
    const N_RANKS: usize = 3;
    let outcome = child::run(
        "processes::a_ring_and_a_sum_go_over_processes",
        N_RANKS,
        |_| Vec::new(),
        |id, number| {
            let rank = Rank::join(id, N_RANKS, number);
            let (from, to) = (rank.memory(&f32s(&vec![number as f32; 50_000])), rank.memory(&f32s(&vec![9.0; 50_000])));
            let (next, before) = ((number + 1) % N_RANKS, (number + N_RANKS - 1) % N_RANKS);
            for _ in 0..20 {
                rank.group(|| {
                    rank.send(from, 50_000, F32, next).unwrap();
                    rank.recv(to, 50_000, F32, before).unwrap();
                })
                .unwrap();
            }
            assert_eq!(rank.bytes(to, 200_000), f32s(&vec![before as f32; 50_000]));
            rank.all_reduce(to, to, 50_000, F32, ReduceOp::Sum).unwrap();
            assert_eq!(rank.bytes(to, 200_000), f32s(&vec![3.0; 50_000]));
            rank.leave();
        },
    );
    if let Some(outcome) = outcome {
        outcome.is_clean();
    }
}
