//! Every operation on a device against the same on the CPU in `f64`: what to run before a new machine is trusted with training.
//!
//! | room | what is in it |
//! |---|---|
//! | `products` `rows` `elements` | the cases: matrix products, what goes by rows, what goes by elements |
//! | `compare` | both sides of a case, the error, and what it may be |
//!
//! Inputs are seeded and the same for both sides: first rounded to the number type that is checked, then widened for the exact
//! side, so that a difference is the operation's own.

mod compare;
mod elements;
mod products;
mod rows;

use candle_core::{DType, Device};

use crate::error::Result;
use crate::ops::set::Set;

pub use compare::Comparison;

/// Compares every operation with values of `dtype` (`f32`, `f64`, `bf16`) on `device` with kernels in `f64` on the CPU; one entry for
/// each result of each shape, whether it is within its bound or not.
///
/// # Errors
/// [`crate::ModelError::Unsupported`] for other number types and devices; what the device says.
pub fn operations(dtype: DType, device: &Device) -> Result<Vec<Comparison>> {
    run(Set::ANY, dtype, device)
}

fn run(set: Set, dtype: DType, device: &Device) -> Result<Vec<Comparison>> {
    let mut bench = compare::Bench::new(set, dtype, device);
    products::cases(&mut bench)?;
    rows::cases(&mut bench)?;
    elements::cases(&mut bench)?;
    Ok(bench.into_comparisons())
}

#[cfg(test)]
mod tests;
