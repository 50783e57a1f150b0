//! NCCL for Rust: safe, non-blocking communicators over CUDA streams.
//!
//! Behind the feature `nccl`; without it there is only [`Version`]. The README has an example and the rules of streams,
//! threads, deadlines and memory.
//!
//! What there is, each using only what stands above it:
//!
//! - `NcclError`: what went wrong, with NCCL's code, text and last error; [`Version`];
//! - `open_cuda_libraries`: for programs that are linked without naming CUDA's libraries;
//! - `poll`, `driver`: waiting with a deadline; the driver's functions;
//! - `Device`, `Event`, `pinned`, `Stream`: where work is queued and what orders it;
//! - `parked`, `DeviceMemory`, `DeviceBytes`, `DevicePart`: memory that an operation may use, kept alive until the operation
//!   is done;
//! - `DataType`, `ReduceOp`, `library`, `CommConfig`, `UniqueId`: NCCL's functions, and what they take;
//! - `ending`, `state`, `making`, `Comm`, `AbortHandle`: communicators, made with a deadline, polled for errors, aborted from
//!   any thread;
//! - `InFlight`, `Group`: operations that are launched together, and what they hold until they are complete.

#[cfg(feature = "nccl")]
mod comm;
#[cfg(feature = "nccl")]
mod config;
#[cfg(feature = "nccl")]
mod device;
#[cfg(feature = "nccl")]
mod driver;
#[cfg(feature = "nccl")]
mod ending;
#[cfg(feature = "nccl")]
mod error;
#[cfg(feature = "nccl")]
mod event;
#[cfg(feature = "nccl")]
mod group;
#[cfg(feature = "nccl")]
mod id;
#[cfg(feature = "nccl")]
mod in_flight;
#[cfg(feature = "nccl")]
mod kinds;
#[cfg(feature = "nccl")]
mod lazy;
#[cfg(feature = "nccl")]
mod library;
#[cfg(feature = "nccl")]
mod making;
#[cfg(feature = "nccl")]
mod memory;
#[cfg(feature = "nccl")]
mod parked;
#[cfg(feature = "nccl")]
mod part;
#[cfg(feature = "nccl")]
mod pinned;
#[cfg(feature = "nccl")]
mod poll;
#[cfg(feature = "nccl")]
mod state;
#[cfg(feature = "nccl")]
mod stream;
mod version;

pub use version::Version;
#[cfg(feature = "nccl")]
pub use {
    comm::{AbortHandle, Comm},
    config::CommConfig,
    device::Device,
    error::NcclError,
    event::Event,
    group::Group,
    id::UniqueId,
    in_flight::InFlight,
    kinds::{DataType, ReduceOp},
    lazy::open_cuda_libraries,
    library::{require_version, runtime_version},
    memory::{DeviceBytes, DeviceMemory, Shared},
    part::DevicePart,
    state::CommStatus,
    stream::Stream,
};

/// cudarc, whose contexts, streams and slices this crate works with.
#[cfg(feature = "nccl")]
pub use cudarc;

/// The README's example compiles.
#[cfg(all(doctest, feature = "nccl"))]
#[doc = include_str!("../README.md")]
struct Readme;
