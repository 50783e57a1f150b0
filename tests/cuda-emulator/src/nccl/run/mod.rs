//! How launched operations run, on the workers of their streams.
//!
//! [`exchange`]: one operation, from what arrived and what has not. [`part`]: the operations of one launch on one stream,
//! which progress together. [`stuck`]: what is said when nothing moves.

pub(crate) mod exchange;
pub(crate) mod part;
mod stuck;
