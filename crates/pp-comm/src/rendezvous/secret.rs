//! What all ranks of a run know and nobody else.

use std::fmt;

/// Bytes of a secret.
const LEN: usize = 32;

/// A key of 256 bits. It shows itself to nobody: neither in messages nor in `{:?}`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; LEN]);

impl Secret {
    /// From its bytes.
    pub const fn new(bytes: [u8; LEN]) -> Self {
        Self(bytes)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}
