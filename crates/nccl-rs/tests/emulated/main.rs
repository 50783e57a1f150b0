//! The whole crate on the emulated driver: `cargo xtask ci emulator` builds it and starts this.
//!
//! - `support`: every test in a process of its own, whose violations the emulator reports; ranks as threads or processes;
//! - `streams`: devices, streams, events, memory;
//! - `comms`: how communicators are made, divided, left and aborted;
//! - `operations`: what each operation does, and what is refused;
//! - `lifetimes`: until when memory is kept;
//! - `faults`: peers that die, errors that come later, versions that are too old.

mod comms;
mod faults;
mod lifetimes;
mod operations;
mod streams;
mod support;
