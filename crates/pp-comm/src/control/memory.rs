//! Collectives between threads of one process.

use std::sync::Arc;
use std::time::Duration;

use pp_schedule::Rank;

use super::heard::{Reports, Watch};
use crate::board::Board;
use crate::collective::Collective;
use crate::deadline::Deadline;
use crate::error::{CommError, Loss};
use crate::fabric::{Attachment, Fabric, Side};
use crate::flight::Recorder;

/// One rank's part in a memory fabric's collectives.
#[derive(Debug)]
pub(crate) struct MemoryControl {
    attachment: Attachment,
}

impl MemoryControl {
    pub(crate) const fn new(rank: Rank, fabric: Arc<Board<Fabric>>) -> Self {
        Self { attachment: Attachment::new(rank, Side::Control, fabric) }
    }

    pub(crate) const fn rank(&self) -> Rank {
        self.attachment.rank()
    }

    pub(super) fn collective(
        &self,
        round: u64,
        collective: Collective,
        part: &[u8],
        limit: Duration,
    ) -> Result<Vec<Vec<u8>>, CommError> {
        let board = self.attachment.board();
        let part = part.to_vec();
        board.update(|fabric| fabric.rounds.give(round, self.rank(), collective, part));
        let parts = board.wait(Deadline::after(limit), |fabric| {
            // What is complete stays complete, whoever is gone by now.
            fabric.rounds.take(round).or_else(|| {
                let missing = fabric.rounds.missing(round);
                fabric.gone(Side::Control, &missing).map(Err)
            })
        });
        parts.unwrap_or_else(|| {
            let missing = board.update(|fabric| fabric.rounds.missing(round));
            Err(CommError::CollectiveDeadline { collective, round, missing, limit })
        })
    }

    /// Of this rank alone: threads of one process report nothing to each other.
    pub(super) fn watch(recorder: &Recorder) -> Watch {
        Watch::new(recorder.clone(), Reports::default())
    }

    /// The first rank that was lost.
    pub(super) fn loss(&self) -> Option<Loss> {
        self.attachment.board().read(|fabric| fabric.loss().cloned())
    }

    pub(super) fn abort(&self, reason: &str) {
        let loss = Loss { rank: self.rank(), reason: reason.to_owned() };
        self.attachment.board().update(|fabric| fabric.lose(loss));
    }

    /// Calls back once a rank is lost, from a thread that ends then, or when this rank has left.
    pub(super) fn on_loss(&self, callback: impl FnOnce(Loss) + Send + 'static) -> Result<(), CommError> {
        let (rank, fabric) = (self.rank(), self.attachment.share());
        let watch = move || {
            let ended = fabric.wait(Deadline::after(Duration::MAX), |fabric| {
                let lost = fabric.loss().cloned().map(Some);
                lost.or_else(|| fabric.has_closed(Side::Control, rank).then_some(None))
            });
            if let Some(Some(loss)) = ended {
                callback(loss);
            }
        };
        let started = std::thread::Builder::new().name("on-loss".to_owned()).spawn(watch);
        started.map(drop).map_err(|error| CommError::System { what: "watch".to_owned(), reason: error.to_string() })
    }

    pub(super) fn close(self) {
        self.attachment.close();
    }
}
