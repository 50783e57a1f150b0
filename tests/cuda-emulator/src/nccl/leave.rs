//! How a communicator ends: in good order, or at once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::comm::{Comm, TICK, background};
use super::frame::Frame;
use super::kinds::{Code, Refusal};
use super::settings::LIMIT;
use super::state::Phase;

/// How long an abort waits for work that touches memory to notice: it looks every few milliseconds.
const NOTICE: Duration = Duration::from_secs(30);

/// Begins to leave in good order: once all that was launched is complete, and all others are as far.
///
/// # Errors
/// It is not ready, or what the system says.
pub(crate) fn finalize(comm: &Arc<Comm>) -> Result<(), Refusal> {
    comm.ready()?;
    comm.change(|state| state.phase = Phase::Leaving);
    let leaving = Arc::clone(comm);
    background("finalize", move || leave(&leaving, true))
}

/// How long letting go waits for what was launched; then that goes on in the background.
const PATIENCE: Duration = Duration::from_secs(5);

/// Lets go of it. What was launched and is not complete gets done first.
///
/// # Errors
/// What the system says.
pub(crate) fn destroy(comm: &Arc<Comm>) -> Result<(), Refusal> {
    let leaves = comm.change(|state| match (state.phase, &state.failure) {
        (Phase::Ready, None) => {
            state.phase = Phase::Leaving;
            true
        }
        _ => false,
    });
    if leaves {
        let leaving = Arc::clone(comm);
        background("destroy", move || {
            leave(&leaving, false);
            end(&leaving);
        })?;
        // The process may end after this, and its peers are to hear a goodbye first.
        let limit = Instant::now() + PATIENCE;
        let mut state = comm.lock();
        while state.phase == Phase::Leaving && state.failure.is_none() && Instant::now() < limit {
            state = comm.wait(state, TICK);
        }
        return Ok(());
    }
    end(comm);
    Ok(())
}

/// Ends it and all its operations, undone. When this returns, they touch no memory any more.
///
/// # Errors
/// Work did not notice.
pub(crate) fn abort(comm: &Comm) -> Result<(), Refusal> {
    end(comm);
    let limit = Instant::now() + NOTICE;
    let mut state = comm.lock();
    while state.running > 0 {
        if Instant::now() > limit {
            return Err(Refusal::system(format!("{}: {} pieces of work do not end", comm.title(), state.running)));
        }
        state = comm.wait(state, TICK);
    }
    Ok(())
}

fn end(comm: &Comm) {
    comm.change(|state| {
        if state.phase != Phase::Left {
            state.phase = Phase::Aborted;
        }
    });
    comm.close();
}

/// Waits for what was launched, says goodbye, and waits for the goodbyes of all others if `all` is set.
fn leave(comm: &Comm, all: bool) {
    let mut state = comm.lock();
    while !state.is_over() && (state.turn < state.n_launched || state.running > 0) {
        state = comm.wait(state, TICK);
    }
    drop(state);
    comm.tell_all(&Frame::Goodbye);
    let limit = Instant::now() + LIMIT;
    let mut state = comm.lock();
    let n_others = comm.place().n_ranks.saturating_sub(1);
    while all && !state.is_over() && state.arrivals.left.len() < n_others && Instant::now() < limit {
        state = comm.wait(state, TICK);
    }
    let (failed, n_left) = (state.is_over(), state.arrivals.left.len());
    drop(state);
    if all && !failed && n_left < n_others {
        comm.fail(Code::SystemError, format!("only {n_left} of {n_others} other ranks finalized it in {LIMIT:?}"));
    } else if !failed {
        comm.change(|state| state.phase = Phase::Left);
    }
}
