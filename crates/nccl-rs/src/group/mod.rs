//! Operations that are launched together.
//!
//! `operation` looks one through and hands it to NCCL; this file gathers and launches them.

mod operation;

use std::ffi::c_int;
use std::marker::PhantomData;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use crate::comm::Comm;
use crate::error::NcclError;
use crate::in_flight::InFlight;
use crate::kinds::{DataType, ReduceOp};
use crate::library::{IN_PROGRESS, Nccl, SUCCESS};
use crate::memory::Shared;
use crate::parked::{self, Until};
use crate::poll::Wait;
use crate::state::{Handle, State};
use crate::stream::Stream;
use operation::{Kind, Operation, Span, check_apart};

/// What errors of a launch name.
const LAUNCH: &str = "ncclGroupEnd";

/// Operations to be launched together, on one stream: none of one communicator waits for another of the group. It owns its
/// buffers, and what it becomes does until they are done with; nothing is launched before [`Group::launch`].
///
/// Operations of **several communicators** are a launch for each. On the one stream they run one after the other, so that those
/// of one communicator may wait for those of another. All ranks must name the communicators in one order; otherwise, on the
/// emulator, two ranks wait for each other. Where that is too much, make a group, with a stream, for each communicator.
///
/// An operation on nothing, of length 0, is nothing: NCCL does not hear of it, on any rank, for all give the same length.
#[derive(Debug, Default)]
#[must_use = "nothing happens before it is launched"]
pub struct Group<'a> {
    operations: Vec<(&'a Comm, Operation)>,
    memory: Vec<Shared>,
}

impl<'a> Group<'a> {
    /// Without operations.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sends all of `buffer` to a rank, which must receive as much of the same type. To itself only beside the receive.
    ///
    /// # Errors
    /// [`NcclError::Misuse`], as all of these: a peer that does not exist, a length that does not fit, memory of another device,
    /// buffers that overlap.
    pub fn send(&mut self, comm: &'a Comm, buffer: Shared, dtype: DataType, peer: usize) -> Result<(), NcclError> {
        let kind = Kind::Send { peer: rank_of(comm, "ncclSend", peer)? };
        let read = Span::of(&*buffer);
        self.push(comm, kind, read, Span::NONE, dtype, &[buffer])
    }

    /// Receives into all of `buffer`.
    ///
    /// # Errors
    /// [`NcclError::Misuse`].
    pub fn recv(&mut self, comm: &'a Comm, buffer: Shared, dtype: DataType, peer: usize) -> Result<(), NcclError> {
        let kind = Kind::Recv { peer: rank_of(comm, "ncclRecv", peer)? };
        let write = Span::of(&*buffer);
        self.push(comm, kind, Span::NONE, write, dtype, &[buffer])
    }

    /// Reduces all ranks' `send` into every rank's `recv`, which may be the same memory.
    ///
    /// # Errors
    /// [`NcclError::Misuse`].
    pub fn all_reduce(
        &mut self,
        comm: &'a Comm,
        send: Shared,
        recv: Shared,
        dtype: DataType,
        op: ReduceOp,
    ) -> Result<(), NcclError> {
        let (read, write) = (Span::of(&*send), Span::of(&*recv));
        self.push(comm, Kind::AllReduce(op), read, write, dtype, &[send, recv])
    }

    /// Puts all ranks' `send`, of one length, one after the other into every rank's `recv`. `send` may be this rank's part of
    /// `recv`.
    ///
    /// # Errors
    /// [`NcclError::Misuse`].
    pub fn all_gather(&mut self, comm: &'a Comm, send: Shared, recv: Shared, dtype: DataType) -> Result<(), NcclError> {
        let (read, write) = (Span::of(&*send), Span::of(&*recv));
        self.push(comm, Kind::AllGather, read, write, dtype, &[send, recv])
    }

    /// Reduces all ranks' `send`, and gives each rank its part of the result, all of one length. `recv` may be this rank's part
    /// of `send`.
    ///
    /// # Errors
    /// [`NcclError::Misuse`].
    pub fn reduce_scatter(
        &mut self,
        comm: &'a Comm,
        send: Shared,
        recv: Shared,
        dtype: DataType,
        op: ReduceOp,
    ) -> Result<(), NcclError> {
        let (read, write) = (Span::of(&*send), Span::of(&*recv));
        self.push(comm, Kind::ReduceScatter(op), read, write, dtype, &[send, recv])
    }

    /// Copies rank `root`'s `buffer` into every rank's.
    ///
    /// # Errors
    /// [`NcclError::Misuse`].
    pub fn broadcast(&mut self, comm: &'a Comm, buffer: Shared, dtype: DataType, root: usize) -> Result<(), NcclError> {
        let kind = Kind::Broadcast { root: rank_of(comm, "ncclBroadcast", root)? };
        let span = Span::of(&*buffer);
        self.push(comm, kind, span, span, dtype, &[buffer])
    }

    fn push(
        &mut self,
        comm: &'a Comm,
        kind: Kind,
        read: Span,
        write: Span,
        dtype: DataType,
        memory: &[Shared],
    ) -> Result<(), NcclError> {
        let operation = Operation::new(kind, read, write, dtype, comm.n_ranks(), comm.rank())?;
        for buffer in memory {
            if buffer.freed_on().is_some_and(|stream| !stream.device().is(comm.device())) {
                let reason = format!(
                    "a buffer is not on the communicator's device, which is GPU {}",
                    comm.device().context().ordinal()
                );
                return Err(NcclError::Misuse { call: kind.call(), reason });
            }
        }
        if operation.count > 0 {
            self.operations.push((comm, operation));
            self.memory.extend_from_slice(memory);
        }
        Ok(())
    }

    /// Puts them on the stream. Waits only for the host's part of it, for at most `limit`.
    ///
    /// # Errors
    /// [`NcclError::Misuse`]: a stream or a communicator of another device, a send to itself without its receive, one
    /// operation that writes what another uses. Nothing has happened then.
    ///
    /// [`NcclError::Aborted`], [`NcclError::Deadline`], or what NCCL says. None of it is complete then, and its communicators
    /// can only be aborted.
    pub fn launch(self, stream: &Stream, limit: Duration) -> Result<InFlight, NcclError> {
        self.check(stream)?;
        parked::sweep();
        let mut states: Vec<_> = self.operations.iter().map(|(comm, _)| comm.state().clone()).collect();
        // One order for all threads, so that no two wait for each other's locks.
        states.sort_by_key(|state| state.number);
        states.dedup_by_key(|state| state.number);
        let Some(first) = states.first() else { return Ok(InFlight::new(stream.record()?, self.memory, states)) };
        let nccl = first.nccl;
        let mut wait = Wait::new(LAUNCH, limit);
        stream.device().bind()?;
        // An error of this is one before which nothing has happened.
        let enqueued = wait.until(|| self.enqueue_if_ready(nccl, &states, stream))?;
        let result = enqueued
            .and_then(|()| states.iter().try_for_each(|state| state.settle(LAUNCH, &mut wait)))
            .and_then(|()| stream.record());
        match result {
            Ok(event) => Ok(InFlight::new(event, self.memory, states)),
            Err(error) => {
                keep_until_gone(self.memory, states, stream.clone());
                Err(error)
            }
        }
    }

    fn check(&self, stream: &Stream) -> Result<(), NcclError> {
        for (comm, operation) in &self.operations {
            if !comm.device().is(stream.device()) {
                let (of, on) = (comm.device().context().ordinal(), stream.device().context().ordinal());
                let reason =
                    format!("its communicator is of GPU {of}, but the stream is of GPU {on}, or of another context");
                return Err(NcclError::Misuse { call: operation.kind.call(), reason });
            }
        }
        let operations: Vec<_> = self.operations.iter().map(|(_, operation)| *operation).collect();
        check_apart(&operations)?;
        self.check_to_itself()
    }

    /// What a rank sends to itself it must receive in the same group.
    fn check_to_itself(&self) -> Result<(), NcclError> {
        let mut comms: Vec<_> = self.operations.iter().map(|(comm, _)| *comm).collect();
        comms.sort_by_key(|comm| comm.state().number);
        comms.dedup_by_key(|comm| comm.state().number);
        for comm in comms {
            let of_this = self.operations.iter().filter(|(other, _)| other.state().number == comm.state().number);
            let to_itself: Vec<_> = of_this.filter(|(_, operation)| is_with(comm, operation)).map(|it| it.1).collect();
            let (sent, received): (Vec<_>, Vec<_>) =
                to_itself.iter().partition(|operation| matches!(operation.kind, Kind::Send { .. }));
            let of = |operations: &[Operation]| -> Vec<_> {
                operations.iter().map(|operation| (operation.count, operation.dtype)).collect()
            };
            if of(&sent) != of(&received) {
                let reason = format!(
                    "rank {} sends itself {:?} and receives {:?} from itself in this group; both must be the same",
                    comm.rank(),
                    of(&sent),
                    of(&received)
                );
                return Err(NcclError::Misuse { call: "ncclSend", reason });
            }
        }
        Ok(())
    }

    /// Hands them to NCCL if nothing is under way with any of the communicators. The outer result is of looking, the inner of
    /// handing over, before which nothing has happened.
    fn enqueue_if_ready(
        &self,
        nccl: &Nccl,
        states: &[Arc<State>],
        stream: &Stream,
    ) -> Result<Option<Result<(), NcclError>>, NcclError> {
        let locked: Vec<_> = states.iter().map(|state| state.lock()).collect();
        for (state, handle) in states.iter().zip(&locked) {
            if !state.is_ready_locked(handle, LAUNCH)? {
                return Ok(None);
            }
        }
        Ok(Some(self.enqueue(nccl, states, &locked, stream)))
    }

    fn enqueue(
        &self,
        nccl: &Nccl,
        states: &[Arc<State>],
        locked: &[MutexGuard<'_, Handle>],
        stream: &Stream,
    ) -> Result<(), NcclError> {
        let open = Open::begin(nccl)?;
        for (comm, operation) in &self.operations {
            let call = operation.kind.call();
            let place = states.iter().position(|state| state.number == comm.state().number);
            let Some(Handle::Live(raw)) = place.map(|index| &*locked[index]) else {
                return Err(NcclError::Aborted { call });
            };
            // SAFETY: the communicator exists while its handle is live, and its lock is held. The memory is kept, by what a
            // launch gives or by what is parked, until the operation is done.
            let code = unsafe { operation.enqueue(nccl, raw.raw(), stream.raw()) };
            if code != SUCCESS && code != IN_PROGRESS {
                // SAFETY: as above.
                return Err(unsafe { nccl.error(call, code, raw.raw()) });
            }
        }
        nccl.check(LAUNCH, open.end())
    }
}

/// The thread's group, begun. Ended also where something fails between: NCCL would take all later calls of the thread for part
/// of it.
struct Open<'a> {
    nccl: &'a Nccl,
    /// Keeps it on its thread.
    _here: PhantomData<*const ()>,
}

impl<'a> Open<'a> {
    fn begin(nccl: &'a Nccl) -> Result<Self, NcclError> {
        // SAFETY: it takes nothing, and concerns this thread alone.
        nccl.check("ncclGroupStart", unsafe { (nccl.group_start)() })?;
        Ok(Self { nccl, _here: PhantomData })
    }

    fn end(self) -> c_int {
        let nccl = self.nccl;
        std::mem::forget(self);
        // SAFETY: the group was begun by this thread, as it cannot go to another, and is ended once.
        unsafe { (nccl.group_end)() }
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        // SAFETY: as in `end`. The error that led here is the one to tell.
        unsafe { (self.nccl.group_end)() };
    }
}

/// Keeps the memory of a launch that failed: some of it may run, until its communicators are gone; then until the stream has
/// come past it.
fn keep_until_gone(memory: Vec<Shared>, states: Vec<Arc<State>>, stream: Stream) {
    let until = Until::Then(Box::new(move || {
        if states.iter().all(|state| state.is_gone()) { stream.record().map(Some) } else { Ok(None) }
    }));
    parked::keep(until, memory);
    // They may be gone already, and then no one may come by again.
    parked::sweep();
}

/// Whether an operation is with this rank itself.
fn is_with(comm: &Comm, operation: &Operation) -> bool {
    let (Kind::Send { peer } | Kind::Recv { peer }) = operation.kind else { return false };
    usize::try_from(peer) == Ok(comm.rank())
}

/// A rank as NCCL takes it.
fn rank_of(comm: &Comm, call: &'static str, rank: usize) -> Result<c_int, NcclError> {
    let raw = c_int::try_from(rank).ok().filter(|_| rank < comm.n_ranks());
    raw.ok_or_else(|| {
        let reason = format!(
            "rank {rank} of {} does not exist: the last is {}",
            comm.n_ranks(),
            comm.n_ranks().saturating_sub(1)
        );
        NcclError::Misuse { call, reason }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::library::fake::{CALLED, CODE};

    #[test]
    fn a_group_that_was_begun_is_ended_once_whatever_happens() {
        let nccl = Nccl::fake();
        CODE.set(SUCCESS);
        let called = || CALLED.with_borrow_mut(std::mem::take);
        called();
        assert_eq!(Open::begin(&nccl).unwrap().end(), SUCCESS);
        assert_eq!(called(), ["ncclGroupStart", "ncclGroupEnd"]);
        // As when an operation in it is refused.
        drop(Open::begin(&nccl).unwrap());
        assert_eq!(called(), ["ncclGroupStart", "ncclGroupEnd"]);
        CODE.set(5);
        assert!(Open::begin(&nccl).is_err());
        assert_eq!(called(), ["ncclGroupStart"]);
    }

    #[test]
    fn handles_may_go_to_any_thread() {
        fn crosses<T: Send + Sync>() {}
        crosses::<crate::Comm>();
        crosses::<crate::AbortHandle>();
        crosses::<crate::InFlight>();
        crosses::<crate::Stream>();
        crosses::<crate::Event>();
        crosses::<crate::DeviceBytes>();
        crosses::<crate::Group<'_>>();
    }
}
