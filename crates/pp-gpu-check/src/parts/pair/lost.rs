//! What a rank learns when the other is gone in the middle of an operation: an error within its deadline, and an abort that ends.

use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use nccl_rs::{DataType, Group};

use super::seat::Seat;
use crate::parts::patterns::blank;
use crate::tell;

/// How long rank 0 waits for a message that never comes, and how much longer all may take.
const SHORT: Duration = Duration::from_secs(3);
const GRACE: Duration = Duration::from_secs(4);

pub(super) fn run(mut seat: Seat) -> Result<()> {
    let comm = seat.communicator()?;
    // What is to be seen is a death in an operation, not one while the other rank is still joining.
    seat.joined.member.control.barrier()?;
    if seat.rank == 1 {
        // Without a word: as when it is killed.
        std::process::exit(9);
    }
    let start = Instant::now();
    let mut group = Group::new();
    group.recv(&comm, blank(&seat.stream, 1 << 20)?, DataType::U8, 1)?;
    let waited = group.launch(&seat.stream, SHORT).and_then(|mut receiving| receiving.wait(SHORT));
    let Err(error) = waited else { bail!("a message came from a rank that is gone") };
    comm.abort_handle().abort();
    drop(comm);
    let took = start.elapsed();
    ensure!(took < SHORT + GRACE, "all was over only after {took:?}: {error}");
    tell::refused(&format!("{error}; all was over after {took:.1?}"))
}
