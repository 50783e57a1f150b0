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
//!
//! # Tensors on devices
//! With the feature `nccl`, a group that is named in `NcclSpec::groups` takes tensors on the ranks' devices too,
//! by the same calls; `GroupComm::start_device_broadcast` and `GroupComm::start_device_barrier` are for those that have no
//! tensor to say so. The words go between the hosts as ever, and nothing is launched before all ranks have said the same: NCCL
//! compares neither types nor lengths, and would hang, or write where it should not. Tensors on the host where others are on
//! devices are [`GroupError::Memory`]. What is different:
//!
//! - **Sums are not in the order of the ranks.** NCCL takes them in an order of its own, by its algorithm and the machine. An
//!   all-reduce gives the same bits on every rank, but not those of the host's loop, and maybe others with another number of ranks,
//!   another length or another version of NCCL.
//! - **When it is launched**: once all words have come and a call of this group is made here, [`Pending::wait`] at the latest. What
//!   is given must have been made by what is on the compute stream at the start; what is put there later does not hold it up.
//! - **What a wait waits for** is the rank's choice, as for messages (`Waits`): with waits on the stream it waits
//!   here for the other ranks' words only, and the compute stream for the result. What goes wrong on the device shows when the
//!   endpoint is settled ([`Endpoint::settle`](crate::Endpoint::settle)); until then a result may be anything.
//! - **Results** are in memory of the endpoint's allocator, so that they are tensors of the stage's without a copy; of a gather, each
//!   rank's is by itself, and its own is the one that was given. What was given is only read.
//! - **Uneven shares**: NCCL divides among ranks only what is even. A gather of uneven shares goes by sends and receives into their
//!   places. A reduce-scatter of a length that the ranks do not divide is an all-reduce of which each rank copies its share: it
//!   sends twice as much, and holds the whole for the time. Lengths that are divided evenly are worth having.
//!
//! None of this has run on real hardware yet: it is tested on an emulated driver.

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
