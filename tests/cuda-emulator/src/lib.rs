//! A test double of the CUDA driver and of NCCL on host memory: one shared library with the C names of both.
//!
//! Rooms, each using only those above it: [`clock`], [`job`], [`fault`], [`report`], [`place`], [`race`], [`driver`],
//! [`nccl`], [`abi`].

pub mod abi;
pub mod clock;
pub mod driver;
pub mod fault;
pub mod job;
pub mod nccl;
pub mod place;
pub mod race;
pub mod report;
