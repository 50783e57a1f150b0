//! Collectives between threads of one process.

use std::sync::Arc;
use std::time::Duration;

use pp_schedule::Rank;

use crate::board::Board;
use crate::deadline::Deadline;
use crate::error::{Collective, CommError};
use crate::fabric::{Attachment, Fabric, Side};

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

    pub(super) fn close(self) {
        self.attachment.close();
    }
}
