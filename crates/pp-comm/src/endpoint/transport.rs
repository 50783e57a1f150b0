//! The transports there are, behind one face: a closed set, so that programs need no type parameter for them.

use std::time::Duration;

use pp_schedule::{Channel, Role};

use super::links::SocketTransport;
use super::memory::MemoryTransport;
use crate::error::CommError;
use crate::message::{Boundary, Buffer, Label};

/// One of them.
#[derive(Debug)]
pub(super) enum Transport {
    Memory(MemoryTransport),
    Socket(SocketTransport),
}

impl Transport {
    /// What a link goes over, for reports.
    pub(super) fn name(&self, link: usize) -> &'static str {
        match self {
            Self::Memory(_) => "memory",
            Self::Socket(socket) => socket.name(link),
        }
    }

    /// Starts a send; gives its number on the link.
    pub(super) fn post_send(
        &mut self,
        (link, channel): (usize, Channel),
        label: Label,
        buffer: Buffer,
    ) -> Result<u64, CommError> {
        if buffer.is_on_device() {
            let transport = self.name(link);
            return Err(CommError::DeviceBuffer { channel, transport, boundary: buffer.boundary().clone() });
        }
        match self {
            Self::Memory(memory) => Ok(memory.post_send(link, label, buffer)),
            Self::Socket(socket) => socket.post_send(link, label, buffer),
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
        }
    }

    /// Nobody will wait for this transfer.
    pub(super) fn abandon(&mut self, link: usize, number: u64) {
        match self {
            Self::Memory(memory) => memory.abandon(link, number),
            Self::Socket(socket) => socket.abandon(link, number),
        }
    }

    /// Whether a wait would end at once, in whatever way.
    pub(super) fn has_ended(&mut self, role: Role, link: usize, number: u64) -> bool {
        match self {
            Self::Memory(memory) => memory.has_ended(role, link, number),
            // Where the link cannot go on, the wait says why.
            Self::Socket(socket) => socket.has_ended(link, number).unwrap_or(true),
        }
    }

    /// Waits for a transfer; `None` when the deadline passes first.
    pub(super) fn wait(
        &mut self,
        role: Role,
        (link, number): (usize, u64),
        limit: Duration,
    ) -> Result<Option<Buffer>, CommError> {
        match (self, role) {
            (Self::Memory(memory), Role::Send) => memory.wait_send(link, number, limit),
            (Self::Memory(memory), Role::Receive) => memory.wait_recv(link, number, limit),
            (Self::Socket(socket), _) => socket.wait(link, number, limit),
        }
    }

    /// Leaves in good order.
    pub(super) fn close(self, limit: Duration) {
        match self {
            Self::Memory(memory) => memory.close(),
            Self::Socket(socket) => socket.close(limit),
        }
    }
}
