//! One operation: what it does with which memory, and whether that can be.

use std::ffi::{c_int, c_void};

use cudarc::driver::sys::CUstream;
use cudarc::nccl::sys::ncclComm_t;

use crate::error::NcclError;
use crate::kinds::{DataType, ReduceOp};
use crate::library::Nccl;
use crate::memory::DeviceMemory;

/// Where memory is, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) address: u64,
    pub(super) n_bytes: usize,
}

impl Span {
    pub(super) const NONE: Self = Self { address: 0, n_bytes: 0 };

    pub(super) fn of(memory: &dyn DeviceMemory) -> Self {
        Self { address: memory.address(), n_bytes: memory.n_bytes() }
    }

    /// The first address after it.
    pub(super) fn end(self) -> u64 {
        self.address.saturating_add(self.n_bytes as u64)
    }

    pub(super) fn overlaps(self, other: Self) -> bool {
        self.n_bytes > 0 && other.n_bytes > 0 && self.address < other.end() && other.address < self.end()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Send { peer: c_int },
    Recv { peer: c_int },
    AllReduce(ReduceOp),
    AllGather,
    ReduceScatter(ReduceOp),
    Broadcast { root: c_int },
}

impl Kind {
    pub(super) const fn call(self) -> &'static str {
        match self {
            Self::Send { .. } => "ncclSend",
            Self::Recv { .. } => "ncclRecv",
            Self::AllReduce(_) => "ncclAllReduce",
            Self::AllGather => "ncclAllGather",
            Self::ReduceScatter(_) => "ncclReduceScatter",
            Self::Broadcast { .. } => "ncclBroadcast",
        }
    }
}

/// An operation that was looked through.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operation {
    pub(super) kind: Kind,
    /// What is read and what is written; the same for what is done in place.
    pub(super) read: Span,
    pub(super) write: Span,
    pub(super) dtype: DataType,
    /// Elements, as NCCL counts them for that kind.
    pub(super) count: usize,
}

impl Operation {
    /// Checks lengths and overlaps, in a communicator of `n_ranks` in which this is `rank`.
    pub(super) fn new(
        kind: Kind,
        read: Span,
        write: Span,
        dtype: DataType,
        n_ranks: usize,
        rank: usize,
    ) -> Result<Self, NcclError> {
        let refuse = |reason: String| NcclError::Misuse { call: kind.call(), reason };
        for span in [read, write] {
            if !span.n_bytes.is_multiple_of(dtype.n_bytes()) {
                let (n_bytes, each) = (span.n_bytes, dtype.n_bytes());
                return Err(refuse(format!(
                    "{n_bytes} bytes are not a whole number of {dtype:?}, which take {each} each"
                )));
            }
        }
        // What every rank gives or gets of the larger one, and which part of it may be the smaller one itself.
        let (part, whole, n_parts) = match kind {
            Kind::Send { .. } => (read, Span::NONE, 0),
            Kind::Recv { .. } => (write, Span::NONE, 0),
            Kind::AllReduce(_) => (read, write, 1),
            Kind::Broadcast { .. } => (write, write, 1),
            Kind::AllGather => (read, write, n_ranks),
            Kind::ReduceScatter(_) => (write, read, n_ranks),
        };
        if part.n_bytes.checked_mul(n_parts).is_none_or(|n_bytes| n_bytes != whole.n_bytes) && n_parts > 0 {
            let (small, large) = (part.n_bytes, whole.n_bytes);
            return Err(refuse(format!("{large} bytes are not {n_parts} times {small}, one for each of its parts")));
        }
        if kind != (Kind::AllGather) && !matches!(kind, Kind::ReduceScatter(_)) && read == write {
            // In place, or one buffer only.
        } else if read.overlaps(write) {
            let offset = (part.n_bytes as u64).saturating_mul(rank as u64);
            if n_parts <= 1 || whole.address.checked_add(offset) != Some(part.address) {
                let place =
                    if n_parts <= 1 { "the same memory".to_string() } else { format!("part {rank} of the other") };
                return Err(refuse(format!("its two buffers overlap; they may only be apart, or one be {place}")));
            }
        }
        Ok(Self { kind, read, write, dtype, count: part.n_bytes / dtype.n_bytes() })
    }

    /// Puts it on the stream, or into the group that the thread has begun.
    ///
    /// # Safety
    /// The communicator exists and is used by no other thread now; the memory stays allocated until the operation is done.
    pub(super) unsafe fn enqueue(&self, nccl: &Nccl, comm: ncclComm_t, stream: CUstream) -> c_int {
        let Self { kind, read, write, dtype, count } = *self;
        let from = read.address as *const c_void;
        let to = write.address as *mut c_void;
        let dtype = dtype.code();
        // SAFETY: the caller vouches for the communicator and the memory; the memory is as long as `count` makes it, which
        // `Operation::new` has checked.
        unsafe {
            match kind {
                Kind::Send { peer } => (nccl.send)(from, count, dtype, peer, comm, stream),
                Kind::Recv { peer } => (nccl.recv)(to, count, dtype, peer, comm, stream),
                Kind::AllReduce(op) => (nccl.all_reduce)(from, to, count, dtype, op.code(), comm, stream),
                Kind::AllGather => (nccl.all_gather)(from, to, count, dtype, comm, stream),
                Kind::ReduceScatter(op) => (nccl.reduce_scatter)(from, to, count, dtype, op.code(), comm, stream),
                Kind::Broadcast { root } => (nccl.broadcast)(from, to, count, dtype, root, comm, stream),
            }
        }
    }
}

/// Refuses operations of one group of which one writes what another uses: they are not ordered with each other.
pub(super) fn check_apart(operations: &[Operation]) -> Result<(), NcclError> {
    let mut spans = Vec::new();
    for operation in operations {
        let Operation { read, write, kind, .. } = *operation;
        if read.overlaps(write) {
            // In place: the larger holds the smaller, and is written to.
            let whole = if read.n_bytes > write.n_bytes { read } else { write };
            spans.push((whole, true, kind));
            continue;
        }
        spans.extend([(read, false, kind), (write, true, kind)].into_iter().filter(|(span, ..)| span.n_bytes > 0));
    }
    spans.sort_by_key(|(span, ..)| span.address);
    let (mut used_to, mut written_to) = (0, 0);
    for (span, is_written, kind) in spans {
        let busy_to = if is_written { used_to } else { written_to };
        if span.address < busy_to {
            let reason = format!(
                "the {} bytes at {:#x} are also used by another operation of the group, and one of the two writes them; \
                 launch them in two groups",
                span.n_bytes, span.address
            );
            return Err(NcclError::Misuse { call: kind.call(), reason });
        }
        used_to = used_to.max(span.end());
        if is_written {
            written_to = written_to.max(span.end());
        }
    }
    Ok(())
}
