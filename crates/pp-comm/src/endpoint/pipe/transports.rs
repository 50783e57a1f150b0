//! What may be used to move bytes between processes.

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
