//! A test double of the CUDA driver and of NCCL on host memory: one shared library with the C names of both.
//!
//! Rooms, each using only those above it: [`clock`], [`job`], [`report`], [`driver`], [`abi`].

pub mod abi;
pub mod clock;
pub mod driver;
pub mod job;
pub mod report;
