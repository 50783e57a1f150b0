//! Divisions of a communicator: every rank tells every other its color, its key and the id of a meeting it opened; of each
//! color the first rank's meeting is taken.

use std::sync::Arc;

use super::comm::{Comm, Place, Request, background};
use super::frame::{Begun, Frame, Key, Lane};
use super::kinds::{Code, Refusal};
use super::meet::{ID_LEN, Meeting};
use crate::clock::Clock;

/// Begins to divide it. Gives this rank's new communicator, unless it has no color.
///
/// # Errors
/// It is not ready, or what the system says.
pub(crate) fn split(
    parent: &Arc<Comm>,
    color: Option<i32>,
    key: i32,
    request: Request,
) -> Result<Option<Arc<Comm>>, Refusal> {
    parent.ready()?;
    let meeting = Meeting::open().map_err(|error| Refusal::system(format!("cannot open a socket: {error}")))?;
    let child = color.map(|_| Comm::new(request));
    let number = parent.change(|state| {
        state.splitting += 1;
        state.n_splits += 1;
        state.n_splits - 1
    });
    let (divided, new) = (Arc::clone(parent), child.clone());
    background("split", move || {
        divide(&divided, number, color, key, meeting, new.as_ref());
        divided.change(|state| state.splitting -= 1);
    })?;
    Ok(child)
}

fn divide(parent: &Comm, number: u64, color: Option<i32>, key: i32, meeting: Meeting, child: Option<&Arc<Comm>>) {
    let Place { rank, n_ranks } = parent.place();
    let id = String::from_utf8_lossy(&meeting.id()).trim_end_matches('\0').to_string();
    let lane = Key { lane: Lane::Split, number };
    // A color is never negative, so that -1 is none.
    let shape = [i64::from(color.unwrap_or(-1)), i64::from(key), 0, 0, 0];
    let mine = Begun { key: lane, shape, what: id, clock: Clock::default() };
    parent.tell_all(&Frame::Begun(mine.clone()));
    let mut all = vec![(rank, mine)];
    for peer in (0..n_ranks).filter(|&peer| peer != rank) {
        match said(parent, peer, lane, child) {
            Some(begun) => all.push((peer, begun)),
            None => {
                if let Some(child) = child {
                    child.fail(Code::RemoteError, format!("rank {peer} of what was divided does not divide it"));
                }
                return;
            }
        }
    }
    let (Some(child), Some(_)) = (child, color) else { return };
    all.retain(|(_, begun)| begun.shape[0] == shape[0]);
    all.sort_by_key(|(old, begun)| (begun.shape[1], *old));
    let place = all.iter().position(|(old, _)| *old == rank).unwrap_or_default();
    if place == 0 {
        meeting.keep();
    }
    let mut id = [0; ID_LEN];
    let drawn = all[0].1.what.as_bytes();
    let n_bytes = drawn.len().min(ID_LEN);
    id[..n_bytes].copy_from_slice(&drawn[..n_bytes]);
    child.take_place(Place { rank: place, n_ranks: all.len() });
    child.make(&id);
}

/// What a rank says; none once the one or the other communicator is over.
fn said(parent: &Comm, peer: usize, key: Key, child: Option<&Arc<Comm>>) -> Option<Begun> {
    let mut state = parent.lock();
    loop {
        if let Some(begun) = state.arrivals.begun.remove(&(peer, key)) {
            return Some(begun);
        }
        if state.is_over() || state.arrivals.left.contains(&peer) {
            return None;
        }
        // Locks of two communicators are never held at once.
        drop(state);
        if child.is_some_and(|child| child.lock().is_over()) {
            return None;
        }
        state = parent.wait(parent.lock(), super::comm::TICK);
    }
}
