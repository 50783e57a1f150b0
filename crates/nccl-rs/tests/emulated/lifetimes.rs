//! Until when memory is kept.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nccl_rs::{DataType, Device, DeviceBytes, DeviceMemory, Group, InFlight, NcclError, Shared, Stream};

use crate::support::{Case, LIMIT, Rank, SHORT, comes_about, cudarc_stream, hold_up, ranks};

/// Memory that says when it is let go of.
#[derive(Debug)]
struct Watched {
    bytes: DeviceBytes,
    is_gone: Arc<AtomicBool>,
    /// Whether it names the stream it is freed on.
    is_open: bool,
}

// SAFETY: as what it holds.
unsafe impl DeviceMemory for Watched {
    fn address(&self) -> u64 {
        self.bytes.address()
    }

    fn n_bytes(&self) -> usize {
        self.bytes.n_bytes()
    }

    fn freed_on(&self) -> Option<Stream> {
        self.bytes.freed_on().filter(|_| self.is_open)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.is_gone.store(true, Ordering::SeqCst);
    }
}

/// Memory on a stream, and whether it is gone.
fn watched(stream: &Stream, is_open: bool) -> (Shared, Arc<AtomicBool>) {
    let is_gone = Arc::new(AtomicBool::new(false));
    let bytes = DeviceBytes::from_host(stream, &[9; 16]).unwrap();
    (Arc::new(Watched { bytes, is_gone: is_gone.clone(), is_open }), is_gone)
}

/// To or from the other rank.
fn exchange(rank: &Rank, memory: Shared, stream: &Stream) -> InFlight {
    try_exchange(rank, memory, stream).unwrap()
}

fn try_exchange(rank: &Rank, memory: Shared, stream: &Stream) -> Result<InFlight, NcclError> {
    let mut group = Group::new();
    if rank.rank == 0 {
        group.recv(&rank.comm, memory, DataType::U8, 1).unwrap();
    } else {
        group.send(&rank.comm, memory, DataType::U8, 0).unwrap();
    }
    group.launch(stream, LIMIT)
}

/// Whether memory that nobody waits for goes. Whatever is done next looks at it; another thread may just be looking.
fn goes(rank: &Rank, is_gone: &AtomicBool) -> bool {
    comes_about(|| {
        drop(DeviceBytes::from_host(&rank.stream, &[1]).unwrap());
        is_gone.load(Ordering::SeqCst)
    })
}

#[test]
fn memory_goes_with_the_wait() {
    Case::new("lifetimes::memory_goes_with_the_wait").run(|| {
        ranks(2, |rank| {
            let (memory, is_gone) = watched(&rank.stream, true);
            let mut in_flight = exchange(&rank, memory, &rank.stream);
            in_flight.wait(LIMIT).unwrap();
            assert!(is_gone.load(Ordering::SeqCst));
            assert!(in_flight.is_complete().unwrap());
            in_flight.wait(LIMIT).unwrap();
            rank.leave();
        });
    });
}

#[test]
fn a_dropped_operation_keeps_its_memory_until_it_is_complete() {
    Case::new("lifetimes::a_dropped_operation_keeps_its_memory_until_it_is_complete").run(|| {
        ranks(2, |rank| {
            let (raw, stream) = cudarc_stream(rank.comm.device());
            let (memory, is_gone) = watched(&stream, true);
            let gate = hold_up(&raw);
            drop(exchange(&rank, memory, &stream));
            assert!(!is_gone.load(Ordering::SeqCst));
            drop(gate);
            stream.settle(LIMIT).unwrap();
            assert!(goes(&rank, &is_gone));
            rank.leave();
        });
    });
}

#[test]
fn a_forgotten_operation_keeps_its_memory_for_ever() {
    // What is forgotten is still there as the context goes.
    Case::new("lifetimes::a_forgotten_operation_keeps_its_memory_for_ever").run(|| {
        ranks(2, |rank| {
            let (memory, is_gone) = watched(&rank.stream, true);
            std::mem::forget(exchange(&rank, memory, &rank.stream));
            rank.stream.settle(LIMIT).unwrap();
            drop(rank.bytes(&[1]));
            rank.leave();
            assert!(!is_gone.load(Ordering::SeqCst));
        });
    });
}

#[test]
fn memory_freed_on_the_stream_that_waits_goes_at_once() {
    Case::new("lifetimes::memory_freed_on_the_stream_that_waits_goes_at_once").run(|| {
        ranks(2, |rank| {
            let (raw, compute) = cudarc_stream(rank.comm.device());
            let (memory, is_gone) = watched(&compute, true);
            let gate = hold_up(&raw);
            rank.stream.wait(&compute.record().unwrap()).unwrap();
            exchange(&rank, memory, &rank.stream).then_on(&compute).unwrap();
            assert!(is_gone.load(Ordering::SeqCst));
            drop(gate);
            compute.settle(LIMIT).unwrap();
            rank.leave();
        });
    });
}

#[test]
fn memory_freed_on_another_stream_stays_until_it_is_complete() {
    Case::new("lifetimes::memory_freed_on_another_stream_stays_until_it_is_complete").run(|| {
        ranks(2, |rank| {
            let (raw, compute) = cudarc_stream(rank.comm.device());
            let third = Stream::new(rank.comm.device()).unwrap();
            // Of another stream, and of one that it does not name.
            let kept = [watched(&third, true), watched(&compute, false)];
            let gate = hold_up(&raw);
            rank.stream.wait(&third.record().unwrap()).unwrap();
            rank.stream.wait(&compute.record().unwrap()).unwrap();
            for (memory, _) in &kept {
                exchange(&rank, memory.clone(), &rank.stream).then_on(&compute).unwrap();
            }
            let [first, second] = kept.map(|(memory, is_gone)| {
                drop(memory);
                is_gone
            });
            assert!(!first.load(Ordering::SeqCst) && !second.load(Ordering::SeqCst));
            drop(gate);
            compute.settle(LIMIT).unwrap();
            assert!(goes(&rank, &first) && goes(&rank, &second));
            rank.leave();
        });
    });
}

#[test]
fn an_error_of_the_driver_does_not_let_go_of_memory() {
    let case = Case::new("lifetimes::an_error_of_the_driver_does_not_let_go_of_memory");
    case.reports("uninitialised read").run(|| {
        let (device, other) = (Device::new(0).unwrap(), Stream::new(&Device::new(1).unwrap()).unwrap());
        let (raw, stream) = cudarc_stream(&device);
        let (memory, is_gone) = watched(&stream, true);
        let gate = hold_up(&raw);
        // The copy is under way still, and nobody waits for it any more.
        assert!(matches!(memory.to_host(&stream, SHORT), Err(NcclError::Deadline { .. })));
        drop(memory);
        // From here on the driver answers with an error whatever it is asked of this context.
        let second = Stream::new(&device).unwrap();
        let never_written: Shared = Arc::new(DeviceBytes::new(&second, 16).unwrap());
        assert!(matches!(never_written.to_host(&second, LIMIT), Err(NcclError::Cuda { .. })));
        assert!(matches!(stream.record(), Err(NcclError::Cuda { .. })));
        drop(DeviceBytes::from_host(&other, &[1]).unwrap());
        assert!(!is_gone.load(Ordering::SeqCst));
        drop(gate);
    });
}

#[test]
fn an_abort_lets_go_of_memory() {
    Case::new("lifetimes::an_abort_lets_go_of_memory").run(|| {
        ranks(2, |rank| {
            if rank.rank == 1 {
                // Sends nothing, and goes when the other does.
                assert!(comes_about(|| rank.comm.status() != nccl_rs::CommStatus::Ready));
                return;
            }
            let (memory, is_gone) = watched(&rank.stream, true);
            drop(exchange(&rank, memory, &rank.stream));
            rank.comm.abort_handle().abort();
            // The stream comes past it on its own.
            assert!(goes(&rank, &is_gone));
            rank.stream.settle(LIMIT).unwrap();
        });
    });
}

#[test]
fn what_fails_keeps_its_memory_until_the_communicator_is_gone() {
    Case::new("lifetimes::what_fails_keeps_its_memory_until_the_communicator_is_gone")
        .faults("async-error=1:rank=0:code=3")
        .run(|| {
            // Often enough that it sometimes fails as it is launched, sometimes later.
            for _ in 0..10 {
                ranks(2, |rank| {
                    let (memory, is_gone) = watched(&rank.stream, true);
                    let result =
                        try_exchange(&rank, memory, &rank.stream).and_then(|mut launched| launched.wait(LIMIT));
                    let error = result.unwrap_err();
                    assert!(matches!(error, NcclError::Nccl { .. }), "{error:?}");
                    // The other may have been told before it launched anything.
                    if rank.rank == 0 {
                        drop(rank.bytes(&[1]));
                        assert!(!is_gone.load(Ordering::SeqCst));
                    }
                    drop(rank.comm);
                    assert!(comes_about(|| {
                        drop(DeviceBytes::from_host(&rank.stream, &[1]).unwrap());
                        is_gone.load(Ordering::SeqCst)
                    }));
                    rank.stream.settle(LIMIT).unwrap();
                });
            }
        });
}
