//! The tests of pp-comm from outside, in one binary: they share their fabrics.

mod address;
mod collectives;
mod common;
mod conformance;
mod executor;
mod mesh;
mod p2p;
mod pipelines;
mod policies;
mod random;
mod rendezvous;
mod replay;
mod toy;
