//! Groups and operations.

use std::ffi::{c_int, c_void};

use super::{CommHandle, answer};
use crate::nccl::call::Call;
use crate::nccl::comm::Place;
use crate::nccl::kinds::{Code, DataType, ReduceOp, Refusal};
use crate::nccl::operation::{Operation, Verb};
use crate::nccl::{group, registry};

/// `ncclGroupStart`.
#[unsafe(no_mangle)]
pub extern "C" fn ncclGroupStart() -> c_int {
    answer(|| {
        group::start();
        Ok(Code::Success)
    })
}

/// `ncclGroupEnd`.
#[unsafe(no_mangle)]
pub extern "C" fn ncclGroupEnd() -> c_int {
    answer(group::end)
}

/// Where an operation is to go.
struct Where {
    comm: CommHandle,
    stream: *mut c_void,
}

/// An operation's element count and type, as C says them.
type Elements = (usize, c_int);

/// An operation: what is the same for all of them.
fn operate(
    name: &str,
    place: Where,
    (count, dtype): Elements,
    (from, to): (*const c_void, *const c_void),
    verb: impl FnOnce(usize) -> Result<Verb, Refusal>,
) -> c_int {
    answer(|| {
        let called = (|| {
            let comm = registry::get(place.comm as usize)?;
            comm.ready()?;
            let Place { rank, n_ranks } = comm.place();
            let dtype = DataType::of(dtype)
                .ok_or_else(|| Refusal::argument(format!("{name}: the emulator knows no type {dtype}")))?;
            let operation = Operation { verb: verb(n_ranks)?, count, dtype, from: from as u64, to: to as u64 };
            let bytes = count.checked_mul(dtype.n_bytes()).and_then(|bytes| bytes.checked_mul(n_ranks));
            if bytes.is_none_or(|bytes| bytes > isize::MAX as usize) {
                return Err(Refusal::argument(format!("{name}: {count} elements are too many")));
            }
            let (read, written) = operation.extent(rank, n_ranks);
            if (read > 0 && from.is_null()) || (written > 0 && to.is_null()) {
                return Err(Refusal::argument(format!("{name}: a buffer is null")));
            }
            Ok(Call { comm, operation, stream: place.stream as usize })
        })();
        called.inspect_err(group::refuse).and_then(group::call)
    })
}

fn rank_of(name: &str, number: c_int, n_ranks: usize) -> Result<usize, Refusal> {
    let rank = usize::try_from(number).ok().filter(|&rank| rank < n_ranks);
    rank.ok_or_else(|| Refusal::argument(format!("{name}: there is no rank {number} among {n_ranks}")))
}

fn reduce_op(name: &str, number: c_int) -> Result<ReduceOp, Refusal> {
    ReduceOp::of(number).ok_or_else(|| Refusal::argument(format!("{name}: the emulator knows no reduction {number}")))
}

/// `ncclSend`.
#[unsafe(no_mangle)]
pub extern "C" fn ncclSend(
    from: *const c_void,
    count: usize,
    dtype: c_int,
    peer: c_int,
    comm: CommHandle,
    stream: *mut c_void,
) -> c_int {
    let verb = |n_ranks| rank_of("ncclSend", peer, n_ranks).map(|peer| Verb::Send { peer });
    operate("ncclSend", Where { comm, stream }, (count, dtype), (from, std::ptr::null()), verb)
}

/// `ncclRecv`.
#[unsafe(no_mangle)]
pub extern "C" fn ncclRecv(
    to: *mut c_void,
    count: usize,
    dtype: c_int,
    peer: c_int,
    comm: CommHandle,
    stream: *mut c_void,
) -> c_int {
    let verb = |n_ranks| rank_of("ncclRecv", peer, n_ranks).map(|peer| Verb::Receive { peer });
    operate("ncclRecv", Where { comm, stream }, (count, dtype), (std::ptr::null(), to), verb)
}

/// `ncclAllReduce`.
#[unsafe(no_mangle)]
pub extern "C" fn ncclAllReduce(
    from: *const c_void,
    to: *mut c_void,
    count: usize,
    dtype: c_int,
    op: c_int,
    comm: CommHandle,
    stream: *mut c_void,
) -> c_int {
    let verb = |_| reduce_op("ncclAllReduce", op).map(Verb::AllReduce);
    operate("ncclAllReduce", Where { comm, stream }, (count, dtype), (from, to), verb)
}

/// `ncclAllGather`.
#[unsafe(no_mangle)]
pub extern "C" fn ncclAllGather(
    from: *const c_void,
    to: *mut c_void,
    count: usize,
    dtype: c_int,
    comm: CommHandle,
    stream: *mut c_void,
) -> c_int {
    operate("ncclAllGather", Where { comm, stream }, (count, dtype), (from, to), |_| Ok(Verb::AllGather))
}

/// `ncclReduceScatter`.
#[unsafe(no_mangle)]
pub extern "C" fn ncclReduceScatter(
    from: *const c_void,
    to: *mut c_void,
    count: usize,
    dtype: c_int,
    op: c_int,
    comm: CommHandle,
    stream: *mut c_void,
) -> c_int {
    let verb = |_| reduce_op("ncclReduceScatter", op).map(Verb::ReduceScatter);
    operate("ncclReduceScatter", Where { comm, stream }, (count, dtype), (from, to), verb)
}

/// `ncclBroadcast`.
#[unsafe(no_mangle)]
pub extern "C" fn ncclBroadcast(
    from: *const c_void,
    to: *mut c_void,
    count: usize,
    dtype: c_int,
    root: c_int,
    comm: CommHandle,
    stream: *mut c_void,
) -> c_int {
    let verb = |n_ranks| rank_of("ncclBroadcast", root, n_ranks).map(|root| Verb::Broadcast { root });
    operate("ncclBroadcast", Where { comm, stream }, (count, dtype), (from, to), verb)
}

/// `ncclReduce`.
#[unsafe(no_mangle)]
pub extern "C" fn ncclReduce(
    from: *const c_void,
    to: *mut c_void,
    count: usize,
    dtype: c_int,
    op: c_int,
    root: c_int,
    comm: CommHandle,
    stream: *mut c_void,
) -> c_int {
    let verb =
        |n_ranks| Ok(Verb::Reduce { op: reduce_op("ncclReduce", op)?, root: rank_of("ncclReduce", root, n_ranks)? });
    operate("ncclReduce", Where { comm, stream }, (count, dtype), (from, to), verb)
}
