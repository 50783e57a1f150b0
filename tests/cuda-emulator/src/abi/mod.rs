//! The C names.

pub mod cuda;
