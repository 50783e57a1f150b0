//! Features that need special hardware still type-check everywhere.

use anyhow::{Context, bail};
use serde_json::Value;

use super::{Passed, succeeds};
use crate::workspace::cargo;

const PACKAGE: &str = "nccl-rs";
const FEATURE: &str = "nccl";

pub(super) fn check() -> anyhow::Result<Passed> {
    if !has_feature()? {
        return Ok(Passed::Skipped(format!("{PACKAGE} has no feature `{FEATURE}` yet")));
    }
    succeeds(cargo().args(["check", "--package", PACKAGE, "--features", FEATURE]))
}

fn has_feature() -> anyhow::Result<bool> {
    let output = cargo()
        .args(["metadata", "--format-version", "1", "--locked", "--no-deps"])
        .output()
        .context("cannot start cargo metadata")?;
    if !output.status.success() {
        bail!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
    let package = packages.iter().find(|package| package["name"] == PACKAGE);
    let package = package.with_context(|| format!("{PACKAGE} is not in the workspace"))?;
    Ok(package["features"].get(FEATURE).is_some())
}
