//! The causal mask.

use std::sync::{Arc, Mutex, PoisonError};

use candle_core::{DType, Device, Tensor};

use crate::error::Result;

/// What is added to scores so that no position sees a later one: made once on its device, for the longest sequences so far.
/// Clones share it. Kernels need none.
#[derive(Clone, Debug, Default)]
pub struct CausalMask(Arc<Mutex<Option<Tensor>>>);

impl CausalMask {
    /// `[seq, seq]`, of scores of `dtype`: zero up to the diagonal, minus infinity beyond it.
    pub(super) fn get(&self, seq: usize, dtype: DType, device: &Device) -> Result<Tensor> {
        // A tensor is stored whole or not at all.
        let mut made = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fits = made.as_ref().is_some_and(|mask| {
            mask.dims()[0] >= seq && mask.dtype() == dtype && mask.device().location() == device.location()
        });
        if !fits {
            let at = |place: usize| if place % seq > place / seq { f32::NEG_INFINITY } else { 0.0 };
            let values: Vec<f32> = (0..seq * seq).map(at).collect();
            *made = Some(Tensor::from_vec(values, (seq, seq), device)?.to_dtype(dtype)?);
        }
        match &*made {
            Some(mask) => Ok(mask.narrow(0, 0, seq)?.narrow(1, 0, seq)?),
            None => unreachable!("it was made"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_is_made_once_and_serves_shorter_sequences() -> Result<()> {
        let (mask, infinite) = (CausalMask::default(), f32::NEG_INFINITY);
        let long = mask.get(3, DType::F32, &Device::Cpu)?;
        assert_eq!(long.to_vec2::<f32>()?, [[0.0, infinite, infinite], [0.0, 0.0, infinite], [0.0, 0.0, 0.0]]);
        let short = mask.clone().get(2, DType::F32, &Device::Cpu)?;
        assert_eq!(short.to_vec2::<f32>()?, [[0.0, infinite], [0.0, 0.0]]);
        assert_eq!(short.stride(), [3, 1], "a view of what was there");
        assert_eq!(mask.get(2, DType::F64, &Device::Cpu)?.dtype(), DType::F64);
        Ok(())
    }
}
