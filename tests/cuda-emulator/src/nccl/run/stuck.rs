//! A watch over operations that do not come about: asks the other ranks what they wait for, and reports it.

use std::time::{Duration, Instant};

use crate::nccl::comm::Comm;
use crate::nccl::frame::Frame;
use crate::nccl::kinds::Code;
use crate::nccl::settings::settings;
use crate::report;

/// How long the others may take to answer.
const ANSWER: Duration = Duration::from_millis(500);

/// Since when nothing moved.
pub(super) struct Watch {
    limit: Option<Duration>,
    since: Instant,
    asked: Option<Instant>,
    over: bool,
}

impl Watch {
    pub(super) fn new() -> Self {
        let limit = settings().ok().and_then(|settings| settings.stuck);
        Self { limit, since: Instant::now(), asked: None, over: false }
    }

    /// Whether there is something to do.
    pub(super) fn is_due(&self) -> bool {
        self.limit.is_some_and(|limit| !self.over && self.since.elapsed() > limit)
    }

    /// To be called now and then: reports, once, and fails the communicator.
    pub(super) fn look(&mut self, comm: &Comm) {
        let Some(limit) = self.limit.filter(|_| self.is_due()) else { return };
        match self.asked {
            None => {
                comm.change(|state| state.arrivals.told.clear());
                comm.tell_all(&Frame::Ask);
                self.asked = Some(Instant::now());
            }
            Some(asked) if asked.elapsed() > ANSWER => {
                self.over = true;
                let text = said(comm, limit);
                report::violation("stuck", &text);
                comm.fail(Code::InternalError, format!("stuck: {text}"));
            }
            Some(_) => {}
        }
    }
}

fn said(comm: &Comm, limit: Duration) -> String {
    let state = comm.lock();
    let place = comm.place();
    let mut text = format!("nothing has moved for {limit:?} in {}", comm.title());
    for rank in 0..place.n_ranks {
        let waits_for = match state.arrivals.told.get(&rank) {
            _ if rank == place.rank => state.waits_for(),
            Some(told) => told.clone(),
            None => "(does not answer)".into(),
        };
        text.push_str(&format!("\nrank {rank} waits for: {waits_for}"));
    }
    text
}
