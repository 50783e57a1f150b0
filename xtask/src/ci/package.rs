//! The schedule core as others get it: its package holds all it needs, and builds by itself.

use super::{Passed, succeeds};
use crate::workspace::cargo;

/// Packs the crate and builds it from the package.
pub(super) fn check() -> anyhow::Result<Passed> {
    succeeds(cargo().args(["package", "--quiet", "--locked", "--allow-dirty", "--package", "pp-schedule"]))
}
