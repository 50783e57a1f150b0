//! Only the named crates may hold unsafe code: all others take the workspace's lints, which forbid it.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, bail};

use super::Passed;
use crate::workspace::root;

/// See docs/adr for why each of these has its own lints.
const MAY_HOLD_UNSAFE: [&str; 4] = ["cuda-emulator", "nccl-rs", "pp-kernels", "pp-shm"];

pub(super) fn check() -> anyhow::Result<Passed> {
    let mut broken = Vec::new();
    if !sets(&fs::read_to_string(root().join("Cargo.toml"))?, "workspace.lints.rust", "unsafe_code", "\"forbid\"") {
        broken.push("the workspace's lints do not forbid unsafe code".to_string());
    }
    for manifest in manifests()? {
        let text = fs::read_to_string(&manifest).with_context(|| format!("cannot read {}", manifest.display()))?;
        let name = manifest.parent().and_then(|folder| folder.file_name()).unwrap_or_default().to_string_lossy();
        let allowed = MAY_HOLD_UNSAFE.contains(&name.as_ref());
        if !allowed && !sets(&text, "lints", "workspace", "true") {
            broken.push(format!("{name} does not take the workspace's lints, so it may hold unsafe code"));
        }
        if allowed && !sets(&text, "lints.clippy", "undocumented_unsafe_blocks", "\"deny\"") {
            broken.push(format!("{name} may hold unsafe code, but need not explain it"));
        }
    }
    if !broken.is_empty() {
        bail!("{}", broken.join("\n"));
    }
    Ok(Passed::Plainly)
}

/// The manifests of the workspace's members.
fn manifests() -> anyhow::Result<Vec<PathBuf>> {
    let outside = ["xtask/Cargo.toml", "tests/Cargo.toml", "tests/cuda-emulator/Cargo.toml"];
    let mut manifests: Vec<PathBuf> = outside.iter().map(|manifest| root().join(manifest)).collect();
    for entry in fs::read_dir(root().join("crates")).context("cannot list crates")? {
        let manifest = entry?.path().join("Cargo.toml");
        if manifest.is_file() {
            manifests.push(manifest);
        }
    }
    manifests.sort();
    Ok(manifests)
}

/// Whether `table` of a manifest holds `key = value`, each on a line of its own.
fn sets(manifest: &str, table: &str, key: &str, value: &str) -> bool {
    let lines = manifest.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    let in_table =
        lines.skip_while(|line| *line != format!("[{table}]")).skip(1).take_while(|line| !line.starts_with('['));
    in_table.filter_map(|line| line.split_once('=')).any(|(k, v)| k.trim() == key && v.trim() == value)
}

#[cfg(test)]
mod tests {
    use super::sets;

    #[test]
    fn a_setting_is_looked_for_in_its_table_only() {
        let manifest = "[package]\nworkspace = true\n[lints]\nworkspace = true # all\n[dependencies]\nx = 1\n";
        assert!(sets(manifest, "lints", "workspace", "true"));
        assert!(!sets(manifest, "dependencies", "workspace", "true"));
        assert!(!sets(manifest, "lints", "workspace", "false"));
        assert!(!sets("", "lints", "workspace", "true"));
    }
}
