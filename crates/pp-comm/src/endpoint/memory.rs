//! Channels between threads of one process. The rules are the fabric's; this is one rank's view of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pp_schedule::{Channel, Rank};

use crate::board::Board;
use crate::deadline::Deadline;
use crate::error::CommError;
use crate::fabric::{Attachment, Fabric, Side};
use crate::message::{Buffer, Label};

/// One rank's ends of a memory fabric's channels.
#[derive(Debug)]
pub(crate) struct MemoryTransport {
    attachment: Attachment,
    /// By link: the place of its channel in the fabric.
    pipes: Vec<usize>,
    /// By link: what was sent and not waited for, by number. The receiver has a copy: both sides own what they have.
    sent: Vec<BTreeMap<u64, Buffer>>,
}

impl MemoryTransport {
    pub(crate) fn new(rank: Rank, channels: &[Channel], fabric: Arc<Board<Fabric>>) -> Self {
        let place =
            |channel: &Channel| fabric.read(|fabric| fabric.pipes.iter().position(|pipe| pipe.channel() == *channel));
        let pipes = channels.iter().filter_map(place).collect();
        let sent = channels.iter().map(|_| BTreeMap::new()).collect();
        Self { attachment: Attachment::new(rank, Side::Endpoint, fabric), pipes, sent }
    }

    pub(crate) const fn rank(&self) -> Rank {
        self.attachment.rank()
    }

    pub(super) fn post_send(&mut self, link: usize, label: Label, buffer: Buffer) -> u64 {
        let (pipe, copy) = (self.pipes[link], buffer.clone());
        let number = self.attachment.board().update(|fabric| fabric.pipes[pipe].send(label, copy));
        self.sent[link].insert(number, buffer);
        number
    }

    pub(super) fn post_recv(&self, link: usize) -> u64 {
        let pipe = self.pipes[link];
        self.attachment.board().update(|fabric| fabric.pipes[pipe].receive())
    }

    /// `None` when the deadline passes first.
    pub(super) fn wait_send(&mut self, link: usize, number: u64, limit: Duration) -> Result<Option<Buffer>, CommError> {
        let sent = self.wait(link, limit, |pipe| pipe.is_sent(number).then_some(()))?;
        Ok(sent.and_then(|()| self.sent[link].remove(&number)))
    }

    /// `None` when the deadline passes first.
    pub(super) fn wait_recv(
        &self,
        link: usize,
        number: u64,
        limit: Duration,
    ) -> Result<Option<(Label, Buffer)>, CommError> {
        self.wait(link, limit, |pipe| pipe.take(number))
    }

    fn wait<R>(
        &self,
        link: usize,
        limit: Duration,
        mut look: impl FnMut(&mut crate::fabric::Pipe) -> Option<R>,
    ) -> Result<Option<R>, CommError> {
        let pipe = self.pipes[link];
        let found = self.attachment.board().wait(Deadline::after(limit), |fabric| {
            let Channel { source, destination, .. } = fabric.pipes[pipe].channel();
            let peer = if source == self.rank() { destination } else { source };
            // What is complete stays complete, whoever is gone by now.
            let found = look(&mut fabric.pipes[pipe]).map(Ok);
            found.or_else(|| fabric.gone(Side::Endpoint, &[peer]).map(Err))
        });
        found.transpose()
    }

    pub(super) fn close(self) {
        self.attachment.close();
    }
}
