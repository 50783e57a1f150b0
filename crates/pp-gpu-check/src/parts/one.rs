//! NCCL with one rank: what can be shown without a second one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use nccl_rs::{
    Comm, CommConfig, CommStatus, DataType, Device, DeviceBytes, Group, NcclError, ReduceOp, Stream, UniqueId,
};

use super::patterns::{SIZES, blank, bytes, expect, of_floats, on_device, size_name};
use crate::conduct::Plan;
use crate::report::Ground;
use crate::tell::{Verdict, check};

/// For whatever works.
const LIMIT: Duration = Duration::from_secs(20);
/// For what is to run out of time, and how much later it may say so.
const SHORT: Duration = Duration::from_secs(2);
const GRACE: Duration = Duration::from_secs(5);

struct Bench {
    device: Device,
    stream: Stream,
    comm: Comm,
}

pub(super) fn run(plan: Plan<'_>) -> Result<()> {
    let mut bench = None;
    check("a communicator of one rank", || {
        let device = Device::new(plan.device as usize)?;
        let stream = Stream::new(&device)?;
        let comm = Comm::init(&device, UniqueId::new()?, 1, 0, &CommConfig::default(), LIMIT)?;
        ensure!((comm.n_ranks(), comm.rank()) == (1, 0), "it says rank {} of {}", comm.rank(), comm.n_ranks());
        bench = Some(Bench { device, stream, comm });
        Ok(Verdict::Passed(String::new()))
    })?;
    let Some(bench) = bench else { return Ok(()) };
    for n_bytes in SIZES {
        if plan.ground == Ground::Emulator && n_bytes > 8 << 20 {
            continue;
        }
        check(&format!("a send to itself in a group, {}", size_name(n_bytes)), || bench.self_send(n_bytes))?;
    }
    check("collectives of one rank", || bench.collectives())?;
    check("a buffer that does not fit is refused", || bench.misfit())?;
    check("asynchronous errors are polled", || bench.status())?;
    check("a split", || bench.split())?;
    check("a deadline: the second of two ranks never comes", || bench.deadline())?;
    check("an abort", || bench.abort())?;
    check("an end in good order", || {
        bench.comm.finalize(LIMIT)?;
        Ok(Verdict::Passed(String::new()))
    })?;
    Ok(())
}

impl Bench {
    fn self_send(&self, n_bytes: usize) -> Result<Verdict> {
        let (from, to) = (on_device(&self.stream, n_bytes, 3)?, blank(&self.stream, n_bytes)?);
        let mut group = Group::new();
        group.send(&self.comm, Arc::clone(&from) as _, DataType::U8, 0)?;
        group.recv(&self.comm, Arc::clone(&to) as _, DataType::U8, 0)?;
        let start = Instant::now();
        group.launch(&self.stream, LIMIT)?.wait(LIMIT)?;
        let took = start.elapsed();
        expect(&to, &self.stream, LIMIT, &bytes(n_bytes, 3))?;
        Ok(Verdict::Passed(format!("{:.3} ms", 1e3 * took.as_secs_f64())))
    }

    fn collectives(&self) -> Result<Verdict> {
        let numbers: Vec<u8> = of_floats(&[1.5, -2.0, 0.25, 8.0]);
        let comm = &self.comm;
        for op in [ReduceOp::Sum, ReduceOp::Product, ReduceOp::Max, ReduceOp::Min, ReduceOp::Average] {
            self.collective(&format!("all-reduce, {op:?}"), &numbers, |group, from, to| {
                group.all_reduce(comm, from, to, DataType::F32, op)
            })?;
        }
        self.collective("all-gather", &numbers, |group, from, to| group.all_gather(comm, from, to, DataType::F32))?;
        self.collective("reduce-scatter", &numbers, |group, from, to| {
            group.reduce_scatter(comm, from, to, DataType::F32, ReduceOp::Sum)
        })?;
        let buffer: nccl_rs::Shared = Arc::new(DeviceBytes::from_host(&self.stream, &numbers)?);
        let mut group = Group::new();
        group.broadcast(comm, Arc::clone(&buffer), DataType::F32, 0)?;
        group.launch(&self.stream, LIMIT)?.wait(LIMIT)?;
        expect(&buffer, &self.stream, LIMIT, &numbers)?;
        Ok(Verdict::Passed("all-reduce of five kinds, all-gather, reduce-scatter, broadcast".to_owned()))
    }

    /// Of one rank, each gives what it is given.
    fn collective<'a>(
        &'a self,
        name: &str,
        numbers: &[u8],
        add: impl FnOnce(&mut Group<'a>, nccl_rs::Shared, nccl_rs::Shared) -> Result<(), NcclError>,
    ) -> Result<()> {
        let from: nccl_rs::Shared = Arc::new(DeviceBytes::from_host(&self.stream, numbers)?);
        let to = blank(&self.stream, numbers.len())?;
        let mut group = Group::new();
        add(&mut group, from, Arc::clone(&to))?;
        group.launch(&self.stream, LIMIT)?.wait(LIMIT)?;
        expect(&to, &self.stream, LIMIT, numbers).map_err(|error| error.context(name.to_owned()))
    }

    fn misfit(&self) -> Result<Verdict> {
        let (from, to) = (on_device(&self.stream, 16, 1)?, blank(&self.stream, 12)?);
        let mut group = Group::new();
        match group.all_reduce(&self.comm, from, to, DataType::F32, ReduceOp::Sum) {
            Err(error @ NcclError::Misuse { .. }) => Ok(Verdict::Passed(error.to_string())),
            other => bail!("12 bytes for 16 gave {other:?}"),
        }
    }

    fn status(&self) -> Result<Verdict> {
        match self.comm.status() {
            CommStatus::Ready => Ok(Verdict::Passed("ready".to_owned())),
            other => bail!("after operations that are complete it is {other:?}"),
        }
    }

    fn split(&self) -> Result<Verdict> {
        let part = self.comm.split(Some(7), 0, &CommConfig::default(), LIMIT)?;
        let Some(part) = part else { bail!("a rank with a color is in no part") };
        ensure!((part.n_ranks(), part.rank()) == (1, 0), "it says rank {} of {}", part.rank(), part.n_ranks());
        part.finalize(LIMIT)?;
        Ok(Verdict::Passed(String::new()))
    }

    fn deadline(&self) -> Result<Verdict> {
        let start = Instant::now();
        let lonely = Comm::init(&self.device, UniqueId::new()?, 2, 0, &CommConfig::default(), SHORT);
        let took = start.elapsed();
        let Err(error @ NcclError::Deadline { .. }) = lonely else { bail!("it gave {lonely:?}") };
        ensure!(took < SHORT + GRACE, "it said so only after {took:?}: {error}");
        Ok(Verdict::Passed(format!("{error}, said after {took:.1?}")))
    }

    fn abort(&self) -> Result<Verdict> {
        let comm = Comm::init(&self.device, UniqueId::new()?, 1, 0, &CommConfig::default(), LIMIT)?;
        let handle = comm.abort_handle();
        // From another thread, as a watchdog would.
        let aborting = std::thread::spawn({
            let handle = handle.clone();
            move || handle.abort()
        });
        ensure!(aborting.join().is_ok(), "the thread that aborts panicked");
        ensure!(handle.status() == CommStatus::Aborted, "it is {:?}", handle.status());
        let (from, to) = (on_device(&self.stream, 64, 1)?, blank(&self.stream, 64)?);
        let mut group = Group::new();
        group.send(&comm, from, DataType::U8, 0)?;
        group.recv(&comm, to, DataType::U8, 0)?;
        match group.launch(&self.stream, LIMIT) {
            Err(error @ NcclError::Aborted { .. }) => Ok(Verdict::Passed(error.to_string())),
            other => bail!("an operation after it gave {other:?}"),
        }
    }
}
