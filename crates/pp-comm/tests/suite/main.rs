//! The tests of pp-comm from outside, in one binary: they share their fabrics.

mod address;
mod auth;
mod collectives;
mod common;
mod conformance;
mod executor;
mod flight;
mod heartbeat;
mod junk;
mod links;
mod mesh;
mod p2p;
mod pipelines;
mod policies;
mod random;
mod rendezvous;
mod replay;
mod speaker;
mod toy;
