//! Transfers in both directions at once: in one group of one communicator, and by two communicators on two streams whose operations
//! the ranks launch in opposite order, as a pipeline's channels do.

use std::sync::Arc;
use std::time::Instant;

use anyhow::Result;
use nccl_rs::{Comm, DataType, Group, Stream};

use super::seat::{LIMIT, Seat};
use crate::conduct::Plan;
use crate::parts::patterns::{SIZES, blank, bytes, expect, on_device, size_name};
use crate::report::{Ground, Outcome};
use crate::tell::{Verdict, check, figure};

const N_ROUNDS: u8 = 3;

pub(super) fn run(plan: Plan<'_>, mut seat: Seat) -> Result<()> {
    let (one, two) = (seat.communicator()?, seat.communicator()?);
    let streams = [Stream::new(&seat.device)?, Stream::new(&seat.device)?];
    let rank = seat.rank;
    let mut is_well = true;
    for n_bytes in SIZES {
        if plan.ground == Ground::Emulator && n_bytes > 8 << 20 {
            continue;
        }
        let size = size_name(n_bytes);
        // After a failure the ranks no longer know of each other where they are.
        if is_well {
            let name = format!("both ways in a group, {size}, rank {rank}");
            is_well &= check(&name, || in_a_group(&seat, &one, n_bytes))? == Outcome::Passed;
        }
        if is_well {
            let name = format!("both ways by two communicators, {size}, rank {rank}");
            is_well &= check(&name, || by_two(&seat, [&one, &two], &streams, n_bytes))? == Outcome::Passed;
        }
    }
    one.finalize(LIMIT)?;
    two.finalize(LIMIT)?;
    seat.leave()
}

/// A rank's message of a round.
const fn seed(rank: u32, round: u8) -> u8 {
    1 + 2 * round + rank as u8
}

fn in_a_group(seat: &Seat, comm: &Comm, n_bytes: usize) -> Result<Verdict> {
    let mut best = f64::INFINITY;
    for round in 0..N_ROUNDS {
        let (from, to) = (on_device(&seat.stream, n_bytes, seed(seat.rank, round))?, blank(&seat.stream, n_bytes)?);
        seat.stream.settle(LIMIT)?;
        let start = Instant::now();
        let mut group = Group::new();
        group.send(comm, from, DataType::U8, seat.peer())?;
        group.recv(comm, Arc::clone(&to), DataType::U8, seat.peer())?;
        group.launch(&seat.stream, LIMIT)?.wait(LIMIT)?;
        best = best.min(start.elapsed().as_secs_f64());
        expect(&to, &seat.stream, LIMIT, &bytes(n_bytes, seed(1 - seat.rank, round)))?;
    }
    let rate = n_bytes as f64 / best / 1e9;
    if seat.rank == 0 {
        let how = format!("the fastest of {N_ROUNDS}, both ranks on one GPU, each way");
        figure(&format!("both ways in a group, {}", size_name(n_bytes)), rate, "GB/s", &how)?;
    }
    Ok(Verdict::Passed(format!("{:.3} ms", 1e3 * best)))
}

/// Rank 0 sends on the first and then receives on the second, rank 1 the other way round: each rank's first operation is the send
/// whose receive the other launches second. Kernels that cannot be resident together never end.
fn by_two(seat: &Seat, comms: [&Comm; 2], streams: &[Stream; 2], n_bytes: usize) -> Result<Verdict> {
    for round in 0..N_ROUNDS {
        let (out, back) = if seat.rank == 0 { (0, 1) } else { (1, 0) };
        let (out_stream, back_stream) = (&streams[out], &streams[back]);
        let from = on_device(out_stream, n_bytes, seed(seat.rank, round))?;
        let to = blank(back_stream, n_bytes)?;
        let mut sending = Group::new();
        sending.send(comms[out], from, DataType::U8, seat.peer())?;
        let mut sending = sending.launch(out_stream, LIMIT)?;
        let mut receiving = Group::new();
        receiving.recv(comms[back], Arc::clone(&to), DataType::U8, seat.peer())?;
        let mut receiving = receiving.launch(back_stream, LIMIT)?;
        receiving.wait(LIMIT)?;
        sending.wait(LIMIT)?;
        expect(&to, back_stream, LIMIT, &bytes(n_bytes, seed(1 - seat.rank, round)))?;
    }
    Ok(Verdict::Passed(String::new()))
}
