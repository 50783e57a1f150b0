//! What travels: typed buffers, the contract of a boundary between stages, and the header of a frame.

mod boundary;
mod buffer;
#[cfg(feature = "nccl")]
mod device;
mod header;
mod incoming;
mod label;
mod row;

use std::fmt;

use pp_schedule::Message;

pub use boundary::{Boundary, BufferError, DType, MAX_DIMS, MAX_MESSAGE_BYTES};
pub use buffer::Buffer;
#[cfg(feature = "nccl")]
pub use device::{DeviceAllocator, StreamAllocator};
pub use header::HeaderError;
pub(crate) use header::{HEADER_LEN, decode, encode};
pub(crate) use incoming::Incoming;
pub use label::Label;
pub(crate) use row::{ROW, decode_row, encode_row};

/// What identifies a message among all others of a run: the step and, within it, the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Envelope {
    /// The step it belongs to. Every call of [`crate::execute`] in a run has a number of its own.
    pub step: u64,
    /// The message within the step.
    pub message: Message,
}

impl fmt::Display for Envelope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the {} of step {}", self.message, self.step)
    }
}
