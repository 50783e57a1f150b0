//! Channels between threads of one process. The rules are the fabric's; this is one rank's view of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use pp_schedule::{Channel, Rank, Role};

use crate::board::Board;
use crate::deadline::Deadline;
use crate::error::CommError;
use crate::fabric::{Attachment, Fabric, Pipe, Side};
use crate::message::{Boundary, Buffer, Label};

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

    pub(super) fn post_recv(&self, link: usize, label: Label, boundary: Boundary) -> Result<u64, CommError> {
        let pipe = self.pipes[link];
        self.attachment.board().update(|fabric| fabric.pipes[pipe].receive(label, boundary))
    }

    /// Nobody will wait for this transfer.
    pub(super) fn abandon(&mut self, link: usize, number: u64) {
        let pipe = self.pipes[link];
        // Of a send, the fabric has a copy of its own, which still goes to the receiver.
        if self.sent[link].remove(&number).is_none() {
            let rank = self.rank();
            self.attachment.board().update(|fabric| fabric.pipes[pipe].abandon(rank, number));
        }
    }

    /// Whether a wait would end at once.
    pub(super) fn has_ended(&self, role: Role, link: usize, number: u64) -> bool {
        let pipe = self.pipes[link];
        self.attachment.board().read(|fabric| {
            let there = match role {
                Role::Send => fabric.pipes[pipe].is_sent(number),
                Role::Receive => fabric.pipes[pipe].has(number),
            };
            there || fabric.gone(Side::Endpoint, &[self.peer(&fabric.pipes[pipe])]).is_some()
        })
    }

    #[cfg(test)]
    pub(super) fn n_held(&self) -> usize {
        let sent: usize = self.sent.iter().map(BTreeMap::len).sum();
        let received = |fabric: &Fabric| {
            let mine = |pipe: &&usize| fabric.pipes[**pipe].channel().destination == self.rank();
            self.pipes.iter().filter(mine).map(|&pipe| fabric.pipes[pipe].n_held()).sum::<usize>()
        };
        sent + self.attachment.board().read(received)
    }

    fn peer(&self, pipe: &Pipe) -> Rank {
        let Channel { source, destination, .. } = pipe.channel();
        if source == self.rank() { destination } else { source }
    }

    /// `None` when the deadline passes first.
    pub(super) fn wait_send(&mut self, link: usize, number: u64, limit: Duration) -> Result<Option<Buffer>, CommError> {
        let sent = self.wait(link, limit, |pipe| pipe.is_sent(number).then_some(()))?;
        Ok(sent.and_then(|()| self.sent[link].remove(&number)))
    }

    /// `None` when the deadline passes first.
    pub(super) fn wait_recv(&self, link: usize, number: u64, limit: Duration) -> Result<Option<Buffer>, CommError> {
        self.wait(link, limit, |pipe| pipe.take(number))?.transpose()
    }

    fn wait<R>(
        &self,
        link: usize,
        limit: Duration,
        mut look: impl FnMut(&mut Pipe) -> Option<R>,
    ) -> Result<Option<R>, CommError> {
        let pipe = self.pipes[link];
        let found = self.attachment.board().wait(Deadline::after(limit), |fabric| {
            let peer = self.peer(&fabric.pipes[pipe]);
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
