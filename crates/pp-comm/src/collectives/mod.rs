//! What the ranks of a group do together: barrier, broadcast, all-reduce, all-gather and reduce-scatter, over the
//! group's own channels.
//!
//! Each waits, or gives a handle that is waited for later. All ranks of a group must ask for the same ones in the same
//! order; they may wait for them in any, but see [`Pending`] for what else they wait for meanwhile. Sums are taken in the
//! order of the group's ranks for every element, whatever the size: the result is that of a loop over the ranks, to the
//! bit.
//!
//! A collective begins with a word from each rank to each other: which one it is, of what type and shape. So ranks that
//! disagree all learn it, instead of some of them waiting for the others. Each says it from its own side: what one rank
//! expected is what the other found, and the other way round. A rank whose own arguments make no sense
//! ([`GroupError::Giver`], [`GroupError::NoSuchRoot`], [`GroupError::Given`]) has begun nothing and says no word; the others
//! wait for it until it leaves, aborts, or their deadline. Large tensors then go in shares, one per
//! rank, so that each rank sends no more than it must:
//!
//! | collective of `S` bytes over `n` ranks | a rank sends |
//! |---|---|
//! | all-gather (`S` from each) | `(n - 1) S` |
//! | reduce-scatter | `(n - 1) / n S` |
//! | all-reduce | `2 (n - 1) / n S`: a reduce-scatter, then an all-gather of the shares |
//! | broadcast | the root `S`, the others `(n - 2) / (n - 1) S`: a share to each, and theirs to each other |
//!
//! Small ones go whole, in one round: an all-reduce sends `(n - 1) S` then, a broadcast's root as much and the others
//! nothing. The words add 96 bytes per rank.

#[cfg(feature = "nccl")]
mod calls;
mod comm;
#[cfg(feature = "nccl")]
mod device;
mod error;
mod host;
mod job;
mod offer;
#[cfg(feature = "nccl")]
mod on_device;
mod pending;
mod round;
mod shares;

pub use comm::GroupComm;
pub use error::GroupError;
pub use pending::Pending;
