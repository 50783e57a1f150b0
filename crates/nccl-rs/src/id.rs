//! What the ranks of a communicator share beforehand.

use crate::error::NcclError;

/// Names a communicator to be made: one rank draws it, all ranks use it, once.
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
        todo!()
    }

    /// From its bytes, as another rank told them.
    pub const fn from_bytes(bytes: [u8; Self::LEN]) -> Self {
        Self(bytes)
    }

    /// Its bytes, to tell other ranks.
    pub const fn as_bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }
}
