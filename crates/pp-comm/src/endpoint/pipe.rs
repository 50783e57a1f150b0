//! What bytes of a channel go through between two processes.

use std::io;
use std::net::TcpStream;

use pp_schedule::Role;

use crate::deadline::Deadline;

/// Which ways of moving bytes between processes may be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Transports {
    /// Shared memory between processes of one host, sockets otherwise.
    #[default]
    Auto,
    /// Sockets only.
    Socket,
    /// Shared memory only: an error between hosts.
    SharedMemory,
}

/// One end of a channel's bytes.
#[derive(Debug)]
pub(crate) enum Pipe {
    /// A connection.
    Tcp(TcpStream),
}

impl Pipe {
    /// Agrees with the peer, over a connection that both know to be theirs, on what the channel's bytes go through. Both
    /// ends call it; `role` tells them apart.
    pub(crate) fn negotiate(
        stream: TcpStream,
        _role: Role,
        _transports: Transports,
        _deadline: Deadline,
    ) -> io::Result<Self> {
        Ok(Self::Tcp(stream))
    }
}
