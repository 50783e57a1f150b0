//! Remembers what was made, so that it is not made again.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::wheels::PINNED;

/// To be raised when a step changes what it leaves.
const RECIPE: u32 = 2;

fn file(folder: &Path) -> PathBuf {
    folder.join("toolkit.stamp")
}

/// What a toolkit made now would be.
fn now() -> String {
    format!("recipe {RECIPE}\n{}\n", PINNED.join("\n"))
}

/// Whether the toolkit in a folder is the one that would be made now.
pub(super) fn is_current(folder: &Path) -> bool {
    fs::read_to_string(file(folder)).is_ok_and(|text| text == now())
}

/// Notes that the toolkit in a folder is complete.
pub(super) fn put(folder: &Path) -> anyhow::Result<()> {
    let file = file(folder);
    fs::write(&file, now()).with_context(|| format!("cannot write {}", file.display()))
}

/// Forgets it, before anything is changed.
pub(super) fn take(folder: &Path) {
    // Where there is none, or it cannot be removed, the next write says so.
    let _ = fs::remove_file(file(folder));
}

#[cfg(test)]
mod tests {
    use super::super::scratch::Scratch;
    use super::*;

    #[test]
    fn a_toolkit_is_current_only_with_the_same_wheels() {
        let scratch = Scratch::new();
        let folder = scratch.path();
        assert!(!is_current(folder));
        put(folder).unwrap();
        assert!(is_current(folder));
        let text = fs::read_to_string(file(folder)).unwrap();
        fs::write(file(folder), text.replace(PINNED[0], "nvidia-cuda-nvcc==13.0.1")).unwrap();
        assert!(!is_current(folder));
        put(folder).unwrap();
        take(folder);
        assert!(!is_current(folder));
    }
}
