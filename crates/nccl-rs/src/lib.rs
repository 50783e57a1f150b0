//! NCCL for Rust: what is here so far, and what is to come.
//!
//! So far this crate finds NCCL at run time and says which version it is (`runtime_version`, behind the feature
//! `nccl`), without a panic on a machine that has none. The communicators are not here yet: non-blocking init with a
//! deadline, groups that cannot outlive their buffers, send and receive on a stream, async-error polling, abort
//! (`docs/adr/0005-nccl-rs.md` says why a crate of its own). Nothing in it has run on a GPU.

#[cfg(feature = "nccl")]
mod runtime;
mod version;

#[cfg(feature = "nccl")]
pub use runtime::{RuntimeError, runtime_version};
pub use version::Version;
