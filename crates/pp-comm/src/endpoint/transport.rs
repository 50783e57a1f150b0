//! The transports there are, behind one face: a closed set, so that programs need no type parameter for them.

use std::time::Duration;

use pp_schedule::{Channel, Role};

use super::links::SocketTransport;
use super::memory::MemoryTransport;
#[cfg(feature = "nccl")]
use super::nccl::NcclTransport;
use crate::error::{CommError, Operation};
use crate::message::{Boundary, Buffer, Label};

/// One of them.
#[derive(Debug)]
pub(super) enum Transport {
    Memory(MemoryTransport),
    Socket(SocketTransport),
    #[cfg(feature = "nccl")]
    Nccl(Box<NcclTransport>),
}

impl Transport {
    /// What a link goes over, for reports.
    pub(super) fn name(&self, link: usize) -> &'static str {
        match self {
            Self::Memory(_) => "memory",
            Self::Socket(socket) => socket.name(link),
            #[cfg(feature = "nccl")]
            Self::Nccl(nccl) => nccl.name(link),
        }
    }

    /// Starts a send; gives its number on the link.
    pub(super) fn post_send(
        &mut self,
        (link, channel): (usize, Channel),
        label: Label,
        buffer: Buffer,
    ) -> Result<u64, CommError> {
        #[cfg(feature = "nccl")]
        if let Self::Nccl(nccl) = self {
            return nccl.post_send((link, channel), label, buffer);
        }
        if buffer.is_on_device() {
            let transport = self.name(link);
            return Err(CommError::DeviceBuffer { channel, transport, boundary: buffer.boundary().clone() });
        }
        match self {
            Self::Memory(memory) => Ok(memory.post_send(link, label, buffer)),
            Self::Socket(socket) => socket.post_send(link, label, buffer),
            #[cfg(feature = "nccl")]
            Self::Nccl(nccl) => nccl.post_send((link, channel), label, buffer),
        }
    }

    /// Starts a receive, into the memory of a buffer if one is given; gives its number on the link.
    pub(super) fn post_recv(
        &mut self,
        link: usize,
        label: Label,
        boundary: Boundary,
        memory: Option<Buffer>,
    ) -> Result<u64, CommError> {
        match self {
            Self::Memory(fabric) => fabric.post_recv(link, label, boundary),
            Self::Socket(socket) => socket.post_recv(link, label, boundary, memory),
            #[cfg(feature = "nccl")]
            Self::Nccl(nccl) => nccl.post_recv(link, label, boundary, memory),
        }
    }

    /// Nobody will wait for this transfer.
    pub(super) fn abandon(&mut self, link: usize, number: u64) {
        match self {
            Self::Memory(memory) => memory.abandon(link, number),
            Self::Socket(socket) => socket.abandon(link, number),
            #[cfg(feature = "nccl")]
            Self::Nccl(nccl) => nccl.abandon(link, number),
        }
    }

    /// Whether a wait would end at once, in whatever way.
    pub(super) fn has_ended(&mut self, role: Role, link: usize, number: u64) -> bool {
        match self {
            Self::Memory(memory) => memory.has_ended(role, link, number),
            // Where the link cannot go on, the wait says why.
            Self::Socket(socket) => socket.has_ended(link, number).unwrap_or(true),
            #[cfg(feature = "nccl")]
            Self::Nccl(nccl) => nccl.has_ended(link, number),
        }
    }

    /// Waits for a transfer; `None` when the deadline passes first.
    pub(super) fn wait(
        &mut self,
        operation: Operation,
        (link, number): (usize, u64),
        limit: Duration,
    ) -> Result<Option<Buffer>, CommError> {
        match (self, operation.role) {
            (Self::Memory(memory), Role::Send) => memory.wait_send(link, number, limit),
            (Self::Memory(memory), Role::Receive) => memory.wait_recv(link, number, limit),
            (Self::Socket(socket), _) => socket.wait(link, number, limit),
            #[cfg(feature = "nccl")]
            (Self::Nccl(nccl), _) => nccl.wait(operation, (link, number), limit),
        }
    }

    /// Nothing more will come of it, because of this error; gives the first cause where that is kept.
    pub(super) fn fail(&self, error: CommError) -> CommError {
        match self {
            Self::Memory(_) | Self::Socket(_) => error,
            #[cfg(feature = "nccl")]
            Self::Nccl(nccl) => nccl.fail(error),
        }
    }

    /// What is posted from here on goes together.
    pub(super) fn begin_together(&mut self) {
        match self {
            // On each channel in the order of the posts: there is nothing to be done for that.
            Self::Memory(_) | Self::Socket(_) => {}
            #[cfg(feature = "nccl")]
            Self::Nccl(nccl) => nccl.begin_together(),
        }
    }

    /// All that goes together was posted.
    pub(super) fn end_together(&mut self) -> Result<(), CommError> {
        match self {
            Self::Memory(_) | Self::Socket(_) => Ok(()),
            #[cfg(feature = "nccl")]
            Self::Nccl(nccl) => nccl.end_together(),
        }
    }

    /// Waits until all that was waited for elsewhere than here is complete.
    #[cfg_attr(not(feature = "nccl"), expect(unused_variables, reason = "nothing else waits elsewhere"))]
    pub(super) fn settle(&mut self, channels: &[Channel], limit: Duration) -> Result<(), CommError> {
        match self {
            Self::Memory(_) | Self::Socket(_) => Ok(()),
            #[cfg(feature = "nccl")]
            Self::Nccl(nccl) => nccl.settle(channels, limit),
        }
    }

    /// Leaves in good order.
    pub(super) fn close(self, limit: Duration) {
        match self {
            Self::Memory(memory) => memory.close(),
            Self::Socket(socket) => socket.close(limit),
            #[cfg(feature = "nccl")]
            Self::Nccl(nccl) => nccl.close(limit),
        }
    }
}
