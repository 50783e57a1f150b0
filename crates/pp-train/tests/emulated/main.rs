//! The trainer over NCCL, on the emulated driver: its ranks are real processes, whose messages go over NCCL while they compute on
//! the processor. `cargo xtask ci emulator` builds the emulator and runs this with it.

mod bits;
mod refusals;
mod runs;

#[expect(dead_code, reason = "the other tests of the trainer use more of it")]
#[path = "../train/process.rs"]
mod process;
