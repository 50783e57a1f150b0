//! A test double of the CUDA driver and of NCCL on host memory: one shared library with the C names of both.

pub mod clock;
pub mod job;
