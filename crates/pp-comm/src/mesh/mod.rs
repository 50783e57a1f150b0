//! The ranks of a run as a mesh: tensor, data and pipeline parallel, in Megatron's default order.
//!
//! A rank has three coordinates, and `rank = tp + tp_size * (dp + dp_size * pp)`. The ranks that differ in one
//! coordinate only are a group of that axis. Every group has a number of its own; the rank learns its groups from here,
//! and nothing else knows any: there is no group that is used when none is given.

mod axis;
mod error;
mod grid;
mod shape;

pub use axis::{Axis, Coordinates};
pub use error::MeshError;
pub use shape::{MAX_RANKS, Mesh};
