//! What the ranks of a communicator share beforehand.

use std::ffi::c_char;
use std::fmt;

use cudarc::nccl::sys::ncclUniqueId;

use crate::error::NcclError;
use crate::library::Nccl;

/// Names a communicator to be made: one rank draws it, all ranks use it, once.
///
/// It holds the address where the process that drew it listens, and whoever knows it may join: tell it to the ranks only.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct UniqueId([u8; Self::LEN]);

impl UniqueId {
    /// Bytes of an id.
    pub const LEN: usize = 128;

    /// A new one. The process that draws it must stay until the communicator is made.
    ///
    /// # Errors
    /// [`NcclError::NotPresent`], or what NCCL says.
    pub fn new() -> Result<Self, NcclError> {
        let nccl = Nccl::get()?;
        let mut id = ncclUniqueId { internal: [0; Self::LEN] };
        // SAFETY: it writes one id, which `id` is.
        nccl.check("ncclGetUniqueId", unsafe { (nccl.get_unique_id)(&raw mut id) })?;
        Ok(Self(id.internal.map(|byte| byte as u8)))
    }

    /// From its bytes, as another rank told them.
    pub const fn from_bytes(bytes: [u8; Self::LEN]) -> Self {
        Self(bytes)
    }

    /// Its bytes, to tell other ranks.
    pub const fn as_bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }

    pub(crate) fn raw(&self) -> ncclUniqueId {
        ncclUniqueId { internal: self.0.map(|byte| byte as c_char) }
    }
}

/// Not its bytes: they let join.
impl fmt::Debug for UniqueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UniqueId(..)")
    }
}
