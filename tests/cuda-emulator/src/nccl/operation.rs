//! One operation of a communicator: what it moves, what must be the same on every rank, what memory it touches.

use std::fmt;

use super::kinds::{DataType, ReduceOp};
use crate::job::{Access, Kind};

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    /// To a rank.
    Send {
        peer: usize,
    },
    /// From a rank.
    Receive {
        peer: usize,
    },
    AllReduce(ReduceOp),
    /// The count is that of one rank's part.
    AllGather,
    /// The count is that of one rank's part.
    ReduceScatter(ReduceOp),
    Broadcast {
        root: usize,
    },
    Reduce {
        op: ReduceOp,
        root: usize,
    },
}

/// An operation as it was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Operation {
    pub(crate) verb: Verb,
    pub(crate) count: usize,
    pub(crate) dtype: DataType,
    /// Where it reads, where it does.
    pub(crate) from: u64,
    /// Where it writes, where it does.
    pub(crate) to: u64,
}

impl Operation {
    /// What must be the same on both ends, or on all ranks: for a send and its receive, count and type.
    pub(crate) fn shape(&self) -> [i64; 5] {
        let (verb, op, root) = match self.verb {
            Verb::Send { .. } | Verb::Receive { .. } => (0, None, 0),
            Verb::AllReduce(op) => (1, Some(op), 0),
            Verb::AllGather => (2, None, 0),
            Verb::ReduceScatter(op) => (3, Some(op), 0),
            Verb::Broadcast { root } => (4, None, root),
            Verb::Reduce { op, root } => (5, Some(op), root),
        };
        [verb, self.count as i64, self.dtype as i64, op.map_or(-1, |op| op as i64), root as i64]
    }

    /// Bytes of `count` elements, which was checked to fit.
    pub(crate) const fn n_bytes(&self) -> usize {
        self.count * self.dtype.n_bytes()
    }

    /// How many bytes it reads and writes on a rank.
    pub(crate) fn extent(&self, rank: usize, n_ranks: usize) -> (usize, usize) {
        let n_bytes = self.n_bytes();
        match self.verb {
            Verb::Send { .. } => (n_bytes, 0),
            Verb::Receive { .. } => (0, n_bytes),
            Verb::AllReduce(_) => (n_bytes, n_bytes),
            Verb::AllGather => (n_bytes, n_bytes * n_ranks),
            Verb::ReduceScatter(_) => (n_bytes * n_ranks, n_bytes),
            Verb::Broadcast { root } => (if root == rank { n_bytes } else { 0 }, n_bytes),
            Verb::Reduce { root, .. } => (n_bytes, if root == rank { n_bytes } else { 0 }),
        }
    }

    /// The memory it touches on a rank.
    pub(crate) fn accesses(&self, rank: usize, n_ranks: usize) -> impl Iterator<Item = Access> {
        let (read, written) = self.extent(rank, n_ranks);
        let read = Access { address: self.from, n_bytes: read, kind: Kind::Read };
        let written = Access { address: self.to, n_bytes: written, kind: Kind::Write };
        [read, written].into_iter().filter(|access| access.n_bytes > 0)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { verb, count, dtype, .. } = self;
        match verb {
            Verb::Send { peer } => write!(f, "ncclSend of {count} {dtype} to rank {peer}"),
            Verb::Receive { peer } => write!(f, "ncclRecv of {count} {dtype} from rank {peer}"),
            Verb::AllReduce(op) => write!(f, "ncclAllReduce of {count} {dtype} ({op})"),
            Verb::AllGather => write!(f, "ncclAllGather of {count} {dtype} from each rank"),
            Verb::ReduceScatter(op) => write!(f, "ncclReduceScatter of {count} {dtype} to each rank ({op})"),
            Verb::Broadcast { root } => write!(f, "ncclBroadcast of {count} {dtype} from rank {root}"),
            Verb::Reduce { op, root } => write!(f, "ncclReduce of {count} {dtype} to rank {root} ({op})"),
        }
    }
}
