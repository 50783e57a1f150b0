//! A GPU.

use std::sync::Arc;

use cudarc::driver::CudaContext;

use crate::driver::{Driver, INVALID_DEVICE};
use crate::error::NcclError;

/// A GPU's context. cudarc's own ordering of slices between streams is left as it is: it does not see this crate's operations,
/// and keeps one reader of a slice only; whoever uses several streams orders them by [`Event`](crate::Event)s.
///
/// Calls make the context the calling thread's, and leave it so, as cudarc does.
#[derive(Clone, Debug)]
pub struct Device {
    context: Arc<CudaContext>,
}

impl Device {
    /// The GPU of that number among those that the process may see.
    ///
    /// # Errors
    /// [`NcclError::NoDriver`], [`NcclError::MissingDriverSymbol`], or what the driver says: among others that there is no such
    /// GPU.
    pub fn new(ordinal: usize) -> Result<Self, NcclError> {
        let driver = Driver::get()?;
        // Asked first: what follows is cudarc's, which takes the number for a C int.
        if ordinal >= driver.device_count()? {
            return Err(driver.error("cuDeviceGet", INVALID_DEVICE));
        }
        let context =
            CudaContext::new(ordinal).map_err(|error| driver.error("cuDevicePrimaryCtxRetain", error.0 as u32))?;
        Ok(Self::of(context))
    }

    /// That of a context that exists and stays as it is.
    pub const fn of(context: Arc<CudaContext>) -> Self {
        Self { context }
    }

    /// How many GPUs the process may see.
    ///
    /// # Errors
    /// As [`Device::new`].
    pub fn count() -> Result<usize, NcclError> {
        Driver::get()?.device_count()
    }

    /// Its context.
    pub const fn context(&self) -> &Arc<CudaContext> {
        &self.context
    }

    /// The driver, with this context as the calling thread's: what every call to it begins with.
    pub(crate) fn bind(&self) -> Result<&'static Driver, NcclError> {
        let driver = Driver::get()?;
        // SAFETY: `self` keeps the context.
        unsafe { driver.bind(self.context.cu_ctx()) }?;
        Ok(driver)
    }

    /// Whether both are the same context.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.context.cu_ctx() == other.context.cu_ctx()
    }
}
