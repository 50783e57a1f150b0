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
        // The larger buffer holds as many parts as there are ranks, or one.
        let (part, whole, n_parts) = match kind {
            Kind::Send { .. } => (read, read, 1),
            Kind::Recv { .. } | Kind::Broadcast { .. } => (write, write, 1),
            Kind::AllReduce(_) => (read, write, 1),
            Kind::AllGather => (read, write, n_ranks),
            Kind::ReduceScatter(_) => (write, read, n_ranks),
        };
        if part.n_bytes.checked_mul(n_parts) != Some(whole.n_bytes) {
            let (small, large) = (part.n_bytes, whole.n_bytes);
            return Err(refuse(format!("{large} bytes are not {n_parts} times {small}, one for each of its parts")));
        }
        // In place means: the part is this rank's own in the whole.
        let own = if n_parts == 1 { 0 } else { rank };
        let offset = (part.n_bytes as u64).checked_mul(own as u64);
        let place = offset.and_then(|offset| whole.address.checked_add(offset));
        if read.overlaps(write) && place != Some(part.address) {
            let reason = format!("its buffers overlap; they may be apart, or the smaller be part {own} of the larger");
            return Err(refuse(reason));
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

#[cfg(test)]
mod tests {
    use super::*;

    const SUM: Kind = Kind::AllReduce(ReduceOp::Sum);

    fn span(address: u64, n_bytes: usize) -> Span {
        Span { address, n_bytes }
    }

    /// As rank 1 of 3.
    fn operation(kind: Kind, read: Span, write: Span) -> Result<Operation, NcclError> {
        Operation::new(kind, read, write, DataType::F32, 3, 1)
    }

    #[test]
    fn counts_are_those_that_nccl_takes() {
        let small = span(0x100, 8);
        let large = span(0x200, 24);
        let count = |kind, read, write| operation(kind, read, write).unwrap().count;
        assert_eq!(count(Kind::Send { peer: 0 }, large, Span::NONE), 6);
        assert_eq!(count(Kind::Recv { peer: 0 }, Span::NONE, small), 2);
        assert_eq!(count(SUM, small, span(0x300, 8)), 2);
        assert_eq!(count(Kind::AllGather, small, large), 2);
        assert_eq!(count(Kind::ReduceScatter(ReduceOp::Sum), large, small), 2);
        assert_eq!(count(Kind::Broadcast { root: 0 }, large, large), 6);
        assert_eq!(count(Kind::AllGather, Span::NONE, Span::NONE), 0);
    }

    #[test]
    fn lengths_that_do_not_fit_are_refused() {
        let is_refused = |kind, read, write| matches!(operation(kind, read, write), Err(NcclError::Misuse { .. }));
        assert!(is_refused(Kind::Send { peer: 0 }, span(0x100, 6), Span::NONE));
        assert!(is_refused(SUM, span(0x100, 8), span(0x200, 12)));
        assert!(is_refused(Kind::AllGather, span(0x100, 8), span(0x200, 8)));
        assert!(is_refused(Kind::AllGather, span(0x100, 8), Span::NONE));
        assert!(is_refused(Kind::ReduceScatter(ReduceOp::Sum), Span::NONE, span(0x200, 8)));
        // Three times that is not a length at all.
        assert!(is_refused(Kind::AllGather, span(0x100, usize::MAX - 3), span(0x200, 8)));
    }

    #[test]
    fn buffers_may_overlap_in_place_only() {
        let whole = span(0x200, 24);
        let is_fine = |kind, read, write| operation(kind, read, write).is_ok();
        assert!(is_fine(SUM, whole, whole));
        assert!(!is_fine(SUM, whole, span(0x204, 24)));
        assert!(is_fine(Kind::AllGather, span(0x208, 8), whole));
        assert!(!is_fine(Kind::AllGather, span(0x200, 8), whole));
        assert!(is_fine(Kind::ReduceScatter(ReduceOp::Sum), whole, span(0x208, 8)));
        assert!(!is_fine(Kind::ReduceScatter(ReduceOp::Sum), whole, span(0x20c, 8)));
        // Beside each other is apart, also at the end of all addresses.
        assert!(is_fine(SUM, span(0x200, 8), span(0x208, 8)));
        assert!(is_fine(SUM, span(u64::MAX - 7, 8), span(u64::MAX - 15, 8)));
    }

    #[test]
    fn operations_of_one_group_must_not_write_what_others_use() {
        let send = |address| operation(Kind::Send { peer: 0 }, span(address, 16), Span::NONE).unwrap();
        let recv = |address| operation(Kind::Recv { peer: 0 }, Span::NONE, span(address, 16)).unwrap();
        let in_place = operation(SUM, span(0x100, 16), span(0x100, 16)).unwrap();
        // One buffer may go to several.
        assert!(check_apart(&[send(0x100), send(0x100), send(0x108), recv(0x118)]).is_ok());
        assert!(check_apart(&[in_place, send(0x110), recv(0xf0)]).is_ok());
        assert!(check_apart(&[send(0x100), recv(0x10c)]).is_err());
        assert!(check_apart(&[recv(0x10c), send(0x100)]).is_err());
        assert!(check_apart(&[recv(0x100), recv(0x100)]).is_err());
        assert!(check_apart(&[in_place, send(0x100)]).is_err());
        // Also where another lies between.
        let long = operation(Kind::Recv { peer: 0 }, Span::NONE, span(0x100, 64)).unwrap();
        assert!(check_apart(&[long, send(0x200), send(0x130)]).is_err());
    }
}
