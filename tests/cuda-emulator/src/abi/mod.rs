//! The C names.

pub mod nccl;
