//! A GPU.

use std::sync::Arc;

use cudarc::driver::CudaContext;

use crate::error::NcclError;

/// A GPU's context, without cudarc's own ordering of slices between streams: that keeps one reader only, so that it loses
/// others; whoever uses several streams orders them by [`Event`](crate::Event)s.
#[derive(Clone, Debug)]
pub struct Device {
    context: Arc<CudaContext>,
}

impl Device {
    /// The GPU of that number among those that the process may see.
    ///
    /// # Errors
    /// [`NcclError::NoDriver`], or what the driver says: among others that there is no such GPU.
    pub fn new(ordinal: usize) -> Result<Self, NcclError> {
        todo!("{ordinal}")
    }

    /// That of a context that exists, whose slices are from now on not ordered by cudarc.
    pub fn of(context: Arc<CudaContext>) -> Self {
        todo!("{context:?}")
    }

    /// How many GPUs the process may see.
    ///
    /// # Errors
    /// As [`Device::new`].
    pub fn count() -> Result<usize, NcclError> {
        todo!()
    }

    /// Its context.
    pub const fn context(&self) -> &Arc<CudaContext> {
        &self.context
    }
}
