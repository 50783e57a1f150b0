//! What computes and what carries messages: the processor and its sockets, or a GPU and NCCL.
//!
//! | file | what is in it |
//! |---|---|
//! | `flags` | what was typed |
//! | `choice` | what was validated |

mod choice;
mod flags;

pub use choice::{Compute, DeviceKind, NumberType};
pub use flags::DeviceArgs;

pub(crate) use choice::Carrier;
#[cfg(feature = "nccl")]
pub(crate) use choice::Nccl;
