//! Point-to-point between pipeline ranks: transfers posted together, and Megatron's methods over the ring of a group.
//!
//! [`Exchange`] is the primitive; it knows channels and labels, and nothing of pipelines. [`RingComm`] has the nine
//! methods that Megatron's schedules call, for schedules that are written as calls rather than as programs; a program
//! needs none of it.

mod contents;
mod error;
mod exchange;
mod handles;
mod outbox;
mod ring;
mod shapes;
mod sizing;
mod spec;

pub use contents::{Contents, Item, Part};
pub use error::P2pError;
pub use exchange::{Exchange, InFlight, Receiving, Sending};
pub use handles::{RecvHandle, SendHandle};
pub use outbox::Outbox;
pub use ring::{RingComm, Started};
pub use spec::{Outgoing, RingSpec, Tag};
