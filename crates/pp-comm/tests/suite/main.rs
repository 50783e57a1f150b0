//! The tests of pp-comm from outside, in one binary: they share their fabrics.

mod collectives;
mod common;
mod conformance;
mod executor;
mod rendezvous;
