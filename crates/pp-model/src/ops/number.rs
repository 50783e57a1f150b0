//! Numbers that operations come to, which may still be on a device: fetched many at a time.

use candle_core::{DType, Tensor};

use crate::error::Result;

/// A number.
#[derive(Clone, Debug)]
pub(crate) enum Number {
    /// In memory of the host.
    Here(f64),
    /// On a device: a tensor of one `f64`.
    There(Tensor),
}

impl Default for Number {
    fn default() -> Self {
        Self::Here(0.0)
    }
}

/// The values of numbers that are on one device if on any: one copy, and one wait for the device.
pub(crate) fn fetch<'a>(numbers: impl IntoIterator<Item = &'a Number> + Clone) -> Result<Vec<f64>> {
    let pending = numbers.clone().into_iter().filter_map(|number| match number {
        Number::Here(_) => None,
        Number::There(tensor) => Some(tensor.to_dtype(DType::F64).and_then(|number| number.reshape(1))),
    });
    let pending = pending.collect::<candle_core::Result<Vec<_>>>()?;
    let fetched = if pending.is_empty() { Vec::new() } else { Tensor::cat(&pending, 0)?.to_vec1()? };
    let mut fetched = fetched.into_iter();
    let value = |number: &Number| match number {
        Number::Here(value) => *value,
        Number::There(_) => fetched.next().unwrap_or_else(|| unreachable!("one was fetched for each")),
    };
    Ok(numbers.into_iter().map(value).collect())
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;

    #[test]
    fn numbers_come_in_their_order_wherever_they_were() -> Result<()> {
        let there = |value: f64| Tensor::new(value, &Device::Cpu).map(Number::There);
        let numbers = [there(1.0)?, Number::Here(2.0), there(3.0)?, Number::default()];
        assert_eq!(fetch(&numbers)?, [1.0, 2.0, 3.0, 0.0]);
        assert_eq!(fetch([])?, [0.0; 0]);
        Ok(())
    }
}
