//! How operations get on their streams.
//!
//! As NCCL does it: the operations of one communicator in a group are one launch, complete together. Several communicators
//! in a group are launches one after the other, in the order in which the group first names them: on one stream the second
//! runs after the first.

use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError};

use super::call::Call;
use super::comm::Comm;
use super::kinds::{Code, Refusal};
use super::operation::{Operation, Verb};
use super::run::exchange::Launched;
use super::run::part::Part;
use super::sabotage;
use super::state::State;
use crate::driver;
use crate::job::{Access, Kind};

/// Launches calls, in the order of their communicators.
///
/// # Errors
/// What cannot be, or what the driver says. The communicators that were not launched as a whole have failed then.
pub(crate) fn launch(calls: Vec<Call>) -> Result<(), Refusal> {
    // Turns are given in the order in which work gets on streams, whatever threads do.
    static LAUNCHING: Mutex<()> = Mutex::new(());
    let _launching = LAUNCHING.lock().unwrap_or_else(PoisonError::into_inner);
    for bundle in by_communicator(calls) {
        let comm = Arc::clone(&bundle[0].comm);
        let launched = launch_one(&comm, bundle);
        if let Err(refusal) = launched {
            comm.fail(refusal.code, refusal.text.clone());
            return Err(refusal);
        }
    }
    Ok(())
}

fn by_communicator(calls: Vec<Call>) -> Vec<Vec<Call>> {
    let mut bundles: Vec<Vec<Call>> = Vec::new();
    for call in calls {
        match bundles.iter_mut().find(|bundle| Arc::ptr_eq(&bundle[0].comm, &call.comm)) {
            Some(bundle) => bundle.push(call),
            None => bundles.push(vec![call]),
        }
    }
    bundles
}

fn launch_one(comm: &Arc<Comm>, mut calls: Vec<Call>) -> Result<(), Refusal> {
    sabotage::before(&mut calls)?;
    check(comm, &calls)?;
    let mut streams: Vec<usize> = Vec::new();
    for call in &calls {
        if !streams.contains(&call.stream) {
            streams.push(call.stream);
        }
    }
    let (turn, launched) = comm.change(|state| {
        state.n_launched += 1;
        let launched: Vec<Launched> = calls.iter().map(|call| number(state, call.operation)).collect();
        (state.n_launched - 1, launched)
    });
    let place = comm.place();
    for &stream in &streams {
        let mine = || calls.iter().zip(&launched).filter(|(call, _)| call.stream == stream);
        let operations: Vec<Launched> = mine().map(|(_, launched)| *launched).collect();
        let accesses = mine().flat_map(|(call, _)| call.operation.accesses(place.rank, place.n_ranks)).collect();
        let part = Part { comm: Arc::clone(comm), turn, n_parts: streams.len(), operations };
        driver::enqueue(stream as *mut c_void, part.what(), accesses, Box::new(move |work| part.run(work)))
            .map_err(|error| Refusal { code: Code::CudaError, text: error.to_string() })?;
    }
    sabotage::after(&calls);
    Ok(())
}

fn number(state: &mut State, operation: Operation) -> Launched {
    state.n_operations += 1;
    let count = match operation.verb {
        Verb::Send { peer } => &mut state.n_sends[peer],
        Verb::Receive { peer } => &mut state.n_receives[peer],
        _ => &mut state.n_together,
    };
    *count += 1;
    Launched { operation, nth: state.n_operations, number: *count - 1 }
}

/// What no launch may hold.
fn check(comm: &Comm, calls: &[Call]) -> Result<(), Refusal> {
    let place = comm.place();
    let own = |wanted: fn(usize) -> Verb| calls.iter().filter(|call| call.operation.verb == wanted(place.rank)).count();
    let (n_sends, n_receives) = (own(|peer| Verb::Send { peer }), own(|peer| Verb::Receive { peer }));
    if n_sends != n_receives {
        return Err(Refusal::usage(format!(
            "{}: {n_sends} sends to itself and {n_receives} receives from itself in one group: they would never meet",
            comm.title()
        )));
    }
    for call in calls {
        let device = driver::device_of_stream(call.stream as *mut c_void)
            .map_err(|error| Refusal { code: Code::CudaError, text: error.to_string() })?;
        if device != comm.request.device as usize {
            return Err(Refusal::argument(format!(
                "{}: {} on a stream of device {device}, but the communicator is of device {}",
                comm.title(),
                call.operation,
                comm.request.device
            )));
        }
    }
    overlap(comm, calls)
}

/// Operations of one launch run at once: none may write what another uses.
fn overlap(comm: &Comm, calls: &[Call]) -> Result<(), Refusal> {
    let place = comm.place();
    let touched: Vec<(&Operation, Access)> = calls
        .iter()
        .flat_map(|call| {
            call.operation.accesses(place.rank, place.n_ranks).map(move |access| (&call.operation, access))
        })
        .collect();
    for (at, (first, one)) in touched.iter().enumerate() {
        for (second, other) in &touched[at + 1..] {
            let apart = one.address + one.n_bytes as u64 <= other.address
                || other.address + other.n_bytes as u64 <= one.address;
            let harmless = one.kind == Kind::Read && other.kind == Kind::Read;
            if !apart && !harmless && !std::ptr::eq(*first, *second) {
                let text = format!(
                    "overlap\ntwo operations of one launch touch the same memory, {}\n{first}: {:?} of {} bytes at {:#x}\n\
                     {second}: {:?} of {} bytes at {:#x}",
                    comm.title(),
                    one.kind,
                    one.n_bytes,
                    one.address,
                    other.kind,
                    other.n_bytes,
                    other.address,
                );
                driver::fail_context(&text);
                return Err(Refusal::usage(text));
            }
        }
    }
    Ok(())
}
