//! The tests of pp-comm from outside, in one binary: they share their fabrics.

mod address;
mod auth;
mod collectives;
mod common;
mod conformance;
mod contract;
mod executor;
mod flight;
#[cfg(feature = "nccl")]
mod gpu;
mod group_collectives;
mod heartbeat;
mod junk;
mod linking;
mod links;
mod memory;
mod mesh;
mod messages;
mod p2p;
mod pipelines;
mod policies;
mod process;
mod random;
mod random_programs;
mod rendezvous;
mod replay;
mod speaker;
mod toy;
mod waits;
