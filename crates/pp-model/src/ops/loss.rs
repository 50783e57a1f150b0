//! A loss that may still be on its device.

use pp_kernels::LossSum;

use super::number::{Number, fetch};
use crate::error::Result;

/// The sum of the losses of the rows that count, and how many they are.
///
/// Where a GPU computed it, its sum stays there until it is asked for: asking waits for all that the GPU was given before.
#[derive(Clone, Debug, Default)]
pub struct Loss {
    pub(crate) sum: Number,
    pub(crate) count: u64,
}

impl From<LossSum> for Loss {
    fn from(loss: LossSum) -> Self {
        Self { sum: Number::Here(loss.sum), count: loss.count }
    }
}

impl Loss {
    /// Sum and count, in memory of the host. Waits for the device that has the sum.
    ///
    /// # Errors
    /// What the device says of the work before.
    pub fn fetch(&self) -> Result<LossSum> {
        let sum = fetch([&self.sum])?.into_iter().sum();
        Ok(LossSum { sum, count: self.count })
    }
}
