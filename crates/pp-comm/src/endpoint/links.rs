//! A rank's ends of channels between processes: one link per channel, so that a channel nobody reads from never holds up
//! another.

use std::time::Duration;

use pp_schedule::{Channel, Rank, Role};

#[cfg(feature = "nccl")]
use super::link::Eye;
use super::link::Link;
use super::pipe::{Pipe, RoughLinks};
use crate::alarm::Alarm;
use crate::deadline::Deadline;
use crate::error::CommError;
use crate::message::{Boundary, Buffer, Label};

/// One rank's ends of its channels.
#[derive(Debug)]
pub(crate) struct SocketTransport {
    links: Vec<Link>,
}

impl SocketTransport {
    /// Takes over pipes, one per channel of the rank. Its waits end when the alarm rings.
    pub(crate) fn new(
        rank: Rank,
        pipes: Vec<(Channel, Pipe)>,
        rough: Option<RoughLinks>,
        alarm: &Alarm,
    ) -> Result<Self, CommError> {
        let link = |(channel, mut pipe): (Channel, Pipe)| {
            let role = if channel.source == rank { Role::Send } else { Role::Receive };
            if let Some(rough) = rough {
                pipe.roughen(rough, channel, role);
            }
            Link::new(channel, role, pipe, alarm)
                .map_err(|error| CommError::System { what: format!("use the {channel}"), reason: error.to_string() })
        };
        Ok(Self { links: pipes.into_iter().map(link).collect::<Result<_, _>>()? })
    }

    pub(super) fn post_send(&mut self, link: usize, label: Label, buffer: Buffer) -> Result<u64, CommError> {
        self.links[link].post_send(label, buffer)
    }

    pub(super) fn post_recv(
        &mut self,
        link: usize,
        label: Label,
        boundary: Boundary,
        memory: Option<Buffer>,
    ) -> Result<u64, CommError> {
        self.links[link].post_recv(label, boundary, memory)
    }

    /// `None` when the deadline passes first.
    pub(super) fn wait(&mut self, link: usize, number: u64, limit: Duration) -> Result<Option<Buffer>, CommError> {
        self.links[link].wait(number, limit)
    }

    /// Whether a wait would end at once.
    pub(super) fn has_ended(&mut self, link: usize, number: u64) -> Result<bool, CommError> {
        self.links[link].has_ended(number)
    }

    /// Nobody will wait for this transfer.
    pub(super) fn abandon(&self, link: usize, number: u64) {
        self.links[link].abandon(number);
    }

    /// What a link goes over.
    pub(super) fn name(&self, link: usize) -> &'static str {
        self.links[link].name()
    }

    /// A look at every link, for another thread.
    #[cfg(feature = "nccl")]
    pub(super) fn eyes(&self) -> impl Iterator<Item = Eye> + '_ {
        self.links.iter().map(Link::eye)
    }

    #[cfg(test)]
    pub(super) fn n_held(&self) -> usize {
        self.links.iter().map(Link::n_held).sum()
    }

    #[cfg(test)]
    pub(super) fn n_to_write(&self) -> usize {
        self.links.iter().map(Link::n_to_write).sum()
    }

    /// Leaves in good order: what is complete arrives.
    pub(super) fn close(self, limit: Duration) {
        // Each link in turn: the others go on meanwhile.
        let deadline = Deadline::after(limit);
        self.links.iter().for_each(|link| link.linger(deadline.remaining().unwrap_or_default()));
    }
}

impl Drop for SocketTransport {
    fn drop(&mut self) {
        // All of them before the first one's helper is waited for.
        self.links.iter().for_each(Link::end);
    }
}
