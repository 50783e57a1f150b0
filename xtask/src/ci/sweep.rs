//! Every schedule under every policy at small sizes, proved or refused by the stated rule.

use super::{Passed, succeeds};
use crate::workspace::cargo;

/// Runs the release build of the sweep, which prints its counts and seconds.
pub(super) fn check() -> anyhow::Result<Passed> {
    let sweep =
        ["run", "--quiet", "--release", "--package", "pp-schedule", "--features", "rayon", "--example", "sweep"];
    succeeds(cargo().args(sweep))
}
