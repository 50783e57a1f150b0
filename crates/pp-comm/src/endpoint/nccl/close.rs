//! Leaving.

use std::thread;
use std::time::Duration;

use pp_schedule::Role;

use super::NcclTransport;
use crate::deadline::Deadline;
use crate::error::Communicator;

/// How long a send is waited for whose receive nobody has posted.
const UNSETTLED: Duration = Duration::from_secs(1);

/// How long the other ranks of a channel's or the run's communicator may take to leave it too. What went over it is complete on
/// both sides by then. In a group some rank may not have come to the end of what this one has: there it is the whole limit.
const PARTING: Duration = Duration::from_secs(2);

/// Between two looks.
const PAUSE: Duration = Duration::from_micros(200);

impl NcclTransport {
    /// Leaves in good order: what was sent and is asked for arrives. Communicators that have nothing under way are left
    /// together with their other ranks, the others are aborted; then the links between the hosts are left. All of it takes at
    /// most `limit`.
    pub(in crate::endpoint) fn close(mut self, limit: Duration) {
        let deadline = Deadline::after(limit);
        let _ = self.end_together();
        self.see_off(deadline);
        let Self { host, lanes, launches, queues, watch, .. } = self;
        watch.begin_close();
        let parting = deadline.at_most(PARTING);
        for lane in lanes {
            let end = if matches!(lane.of, Communicator::Group { .. }) { deadline } else { parting };
            if watch.cause().is_none() && lane.is_idle().unwrap_or(false) {
                // A communicator that could not be left in good order is aborted; there is nobody left to tell.
                let _ = lane.comm.finalize(end.remaining().unwrap_or_default());
            }
        }
        drop((launches, queues, watch));
        host.close(deadline.remaining().unwrap_or_default());
    }

    /// Waits until what was sent has left: up to the deadline where it is asked for, a moment where it is not.
    fn see_off(&mut self, deadline: Deadline) {
        let patience = deadline.at_most(UNSETTLED);
        while self.watch.cause().is_none() && self.has_sends_under_way() {
            let asked_for = (0..self.queues.len()).all(|link| !self.has_unasked(link));
            let end = if asked_for { deadline } else { patience };
            let Some(left) = end.remaining() else { return };
            thread::sleep(PAUSE.min(left));
        }
    }

    fn has_sends_under_way(&self) -> bool {
        let sends = |lane: usize| self.turns.keys().any(|&(role, of, _)| role == Role::Send && of == lane);
        (0..self.lanes.len()).any(|lane| sends(lane) && !self.lanes[lane].is_idle().unwrap_or(true))
    }

    /// Whether something was sent on a link whose receive was not posted.
    fn has_unasked(&mut self, link: usize) -> bool {
        let last = self.queues[link].notes.back().filter(|note| note.role == Role::Send).and_then(|note| note.on_link);
        last.is_some_and(|last| !self.host.has_ended(link, last).unwrap_or(true))
    }
}
