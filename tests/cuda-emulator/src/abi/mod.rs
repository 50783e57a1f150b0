//! The C names.

pub mod cuda;
pub mod nccl;
