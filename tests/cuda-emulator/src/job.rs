//! What the NCCL half asks of the driver half: to put work on a stream, with the memory it touches.

use crate::clock::Clock;

/// Whether a piece of work reads or writes memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It reads.
    Read,
    /// It writes.
    Write,
}

/// Memory that a piece of work touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Where, as the device knows it.
    pub address: u64,
    /// How many bytes.
    pub n_bytes: usize,
    /// How.
    pub kind: Kind,
}

/// A piece of work, run by its stream's worker once all before it is done. It may wait for a peer, but must look at
/// [`Work::is_cancelled`] again and again while it does. An error makes its context fail; work that was merely given up
/// ends well.
pub type Run = Box<dyn FnOnce(&mut dyn Work) -> Result<(), String> + Send>;

/// What a piece of work may do while it runs.
pub trait Work {
    /// What is ordered before it, itself not included: for a frame that says that it has begun.
    fn before(&self) -> Clock;
    /// The same, itself included: for a frame that can only be taken once all that it touches has been touched.
    fn clock(&self) -> Clock;
    /// Something else is ordered before what comes after: a peer's clock out of a frame. That is what follows on the stream,
    /// and what this work itself writes for the first time from now on; but not what it reads, as that counts as read when
    /// the work begins.
    fn join(&mut self, clock: &Clock);
    /// Reads memory that was stated as an access, as the bytes are now.
    fn read(&self, address: u64, n_bytes: usize) -> Result<Vec<u8>, String>;
    /// Writes memory that was stated as an access.
    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), String>;
    /// Whether the process or the context is going away, so that waiting is pointless.
    fn is_cancelled(&self) -> bool;
}
