//! NCCL's endpoint over several processes, on the emulated driver.
//!
//! `cargo xtask ci emulator` builds the emulator and runs this with it. A test's ranks are processes of this binary, each of which
//! runs the same test and takes the part of its rank ([`harness`]). `PP_EMULATED_ALL=1` has all combinations tried where otherwise
//! a seed chooses some.

mod asked;
mod collectives;
mod common;
mod detection;
mod ends;
mod executor;
mod faults;
mod gpu;
mod harness;
mod place;
mod programs;
mod ranks;
mod stage;

#[path = "../suite/conformance.rs"]
mod conformance;
#[path = "../suite/messages.rs"]
mod messages;
#[path = "../suite/random.rs"]
mod random;
#[path = "../suite/toy.rs"]
#[allow(dead_code, reason = "here results are put together by name")]
mod toy;
