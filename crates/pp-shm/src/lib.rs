//! One-way byte rings in memory that two processes of one host share.
//!
//! A [`Producer`] makes a ring in anonymous memory and hands its descriptor over ([`Mailbox`], [`deliver`]); the other process
//! makes a [`Consumer`] of it. Bytes are written and read without system calls while both keep up; a side that has to wait
//! parks on its [`Bell`]. Beside the bytes a number goes the other way: how many messages the consumer has asked for.
//!
//! The other process is not trusted: whatever it writes into the memory, this side gets an error or wrong bytes, never
//! undefined behaviour, a panic, or a wait without end. It cannot take the memory away either, because its size is sealed.
//!
//! ```
//! use std::mem::MaybeUninit;
//! use pp_shm::{Consumer, Producer};
//!
//! let (mut producer, memory) = Producer::new(1 << 16)?;
//! let mut consumer = Consumer::open(&memory)?;
//! assert_eq!(producer.write(b"words")?, 5);
//! let mut room = [MaybeUninit::uninit(); 8];
//! assert_eq!(consumer.read(&mut room)?, b"words");
//! # Ok::<(), pp_shm::ShmError>(())
//! ```
//!
//! Two things of the same trade that need unsafe code live here too: [`Filling`], a typed vector that bytes are received into
//! without being zeroed first, and [`unacknowledged`], what a connection still holds of what was sent.

mod bell;
mod copy;
mod error;
mod filling;
mod layout;
mod mailbox;
mod mapping;
mod ring;
mod unacknowledged;

pub use bell::{Armed, Bell};
pub use error::ShmError;
pub use filling::Filling;
pub use layout::{MAX_CAPACITY, MIN_CAPACITY};
pub use mailbox::{ADDRESS_BYTES, Mailbox, deliver};
pub use ring::{Consumer, Producer};
pub use unacknowledged::unacknowledged;
