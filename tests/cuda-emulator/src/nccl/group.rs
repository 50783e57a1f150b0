//! Groups: what a thread calls between `ncclGroupStart` and `ncclGroupEnd`. They nest; the outermost end launches.
//!
//! With communicators that do not block, the end only says that the launch is under way: it is made when the thread asks
//! such a communicator how it is (`ncclCommGetAsyncError`). NCCL may launch as late as that, so a program that records an
//! event before it has asked is found out: its event is before the operations.

use std::cell::RefCell;
use std::sync::Arc;

use super::call::Call;
use super::comm::Comm;
use super::kinds::{Code, Refusal};
use super::launch::launch;
use super::sabotage;

#[derive(Default)]
struct Group {
    depth: usize,
    calls: Vec<Call>,
    /// Communicators made, and blocking.
    made: Vec<Arc<Comm>>,
    /// The first call that was refused.
    refused: Option<Refusal>,
}

thread_local! {
    static GROUP: RefCell<Group> = RefCell::default();
    /// Launches that this thread is to make when it asks.
    static DEFERRED: RefCell<Vec<Vec<Call>>> = const { RefCell::new(Vec::new()) };
}

/// `ncclGroupStart`.
pub(crate) fn start() {
    GROUP.with_borrow_mut(|group| group.depth += 1);
}

/// `ncclGroupEnd`.
///
/// # Errors
/// There is no group, a call in it was refused, or what it does cannot be.
pub(crate) fn end() -> Result<Code, Refusal> {
    let group = GROUP.with_borrow_mut(|group| {
        match group.depth {
            0 => return Err(Refusal::usage("ncclGroupEnd without ncclGroupStart")),
            1 => {}
            _ => {
                group.depth -= 1;
                return Ok(None);
            }
        }
        Ok(Some(std::mem::take(group)))
    })?;
    let Some(Group { calls, made, refused, .. }) = group else { return Ok(Code::Success) };
    if let Some(refusal) = refused {
        return Err(refusal);
    }
    made.iter().try_for_each(|comm| comm.settle())?;
    flush(calls)
}

/// An operation, in the thread's group or by itself.
///
/// # Errors
/// The communicator is not ready, or what it does cannot be.
pub(crate) fn call(call: Call) -> Result<Code, Refusal> {
    start();
    let ready = call.comm.ready();
    GROUP.with_borrow_mut(|group| match &ready {
        Ok(()) => group.calls.push(call),
        Err(refusal) => drop(group.refused.get_or_insert(refusal.clone())),
    });
    let ended = end();
    ready.and(ended)
}

/// A call in the thread's group was refused: the group will not be launched.
pub(crate) fn refuse(refusal: &Refusal) {
    GROUP.with_borrow_mut(|group| {
        if group.depth > 0 {
            group.refused.get_or_insert(refusal.clone());
        }
    });
}

/// A communicator is being made: a blocking one is waited for, at the end of the thread's group if there is one.
///
/// # Errors
/// It cannot be made.
pub(crate) fn made(comm: &Arc<Comm>) -> Result<Code, Refusal> {
    if !comm.request.blocking {
        return Ok(Code::InProgress);
    }
    let later = GROUP.with_borrow_mut(|group| {
        let later = group.depth > 0;
        if later {
            group.made.push(Arc::clone(comm));
        }
        later
    });
    if later {
        return Ok(Code::Success);
    }
    comm.settle().map(|()| Code::Success)
}

fn flush(calls: Vec<Call>) -> Result<Code, Refusal> {
    let Some(first) = calls.first() else { return Ok(Code::Success) };
    let blocking = first.comm.request.blocking;
    if calls.iter().any(|call| call.comm.request.blocking != blocking) {
        return Err(Refusal::argument("a group may not hold blocking and non-blocking communicators"));
    }
    if blocking {
        return launch_all(calls).map(|()| Code::Success);
    }
    for comm in communicators(&calls) {
        comm.change(|state| state.n_deferred += 1);
    }
    DEFERRED.with_borrow_mut(|deferred| deferred.push(calls));
    Ok(Code::InProgress)
}

fn communicators(calls: &[Call]) -> Vec<Arc<Comm>> {
    let mut comms: Vec<Arc<Comm>> = Vec::new();
    for call in calls {
        if !comms.iter().any(|comm| Arc::ptr_eq(comm, &call.comm)) {
            comms.push(Arc::clone(&call.comm));
        }
    }
    comms
}

fn launch_all(calls: Vec<Call>) -> Result<(), Refusal> {
    if sabotage::splits(&calls) {
        return calls.into_iter().try_for_each(|call| launch(vec![call]));
    }
    launch(calls)
}

/// What `ncclCommGetAsyncError` says; makes the launches that this thread has left to be made.
pub(crate) fn status(comm: &Comm) -> Code {
    let of_comm = |calls: &mut Vec<Call>| calls.iter().any(|call| std::ptr::eq(&*call.comm, comm));
    let due: Vec<Vec<Call>> = DEFERRED.with_borrow_mut(|deferred| deferred.extract_if(.., of_comm).collect());
    for calls in due {
        let comms = communicators(&calls);
        // Where one failed or was aborted meanwhile, nothing is launched, and the others must not go on as if it were.
        let over = comms.iter().find(|comm| comm.lock().is_over()).map(|comm| comm.title());
        let launched = match over {
            Some(title) => Err(Refusal::usage(format!("nothing of the group was launched: {title} is over"))),
            None => launch_all(calls),
        };
        for comm in comms {
            comm.change(|state| state.n_deferred -= 1);
            if let Err(refusal) = &launched {
                comm.fail(refusal.code, refusal.text.clone());
            }
        }
    }
    comm.code()
}
