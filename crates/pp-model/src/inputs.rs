//! A microbatch's inputs where the layers read them.

use candle_core::{DType, Device};

use crate::batch::MicroBatch;
use crate::error::Result;
use crate::ops::{Labels, Tokens, Way};

/// The inputs of one microbatch, on the device of the layers where those do not read the host's memory.
#[derive(Clone, Debug)]
pub struct Inputs {
    pub(crate) tokens: Tokens,
    pub(crate) labels: Labels,
}

impl Inputs {
    /// Puts `batch` where layers with values of `dtype` on `device` read it. Moves what stays in memory of the host; what goes
    /// to a device may wait for what that was given before. Tokens or labels that no layer here reads may be empty.
    ///
    /// # Errors
    /// [`crate::ModelError::Unsupported`], or what the device says.
    pub fn new(batch: MicroBatch, dtype: DType, device: &Device) -> Result<Self> {
        let way = Way::on("inputs", device, dtype)?;
        let MicroBatch { tokens, labels } = batch;
        Ok(Self { tokens: Tokens::new(tokens, way, device)?, labels: Labels::new(labels, way, dtype, device)? })
    }
}
