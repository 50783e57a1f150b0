//! A binary as a file: how large it is, and a smaller one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use super::tools;

/// A copy without symbols, to be carried to another machine.
///
/// # Errors
/// That there is no strip, or what it says.
pub(super) fn strip(binary: &Path, folder: &Path) -> anyhow::Result<PathBuf> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let copy = folder.join(binary.file_name().context("a binary has a name")?);
    let strip = tools::on_path("strip").context("there is no strip (binutils) to make binaries small")?;
    tools::said(Command::new(strip).arg("-o").arg(&copy).arg(binary), "strip")?;
    Ok(copy)
}

/// How large a file is, in MiB.
pub(super) fn mib(file: &Path) -> anyhow::Result<f64> {
    let n_bytes = fs::metadata(file).with_context(|| format!("cannot read {}", file.display()))?.len();
    Ok(n_bytes as f64 / f64::from(1 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_very_program_gets_smaller() {
        let own = std::env::current_exe().unwrap();
        let scratch = super::super::scratch::Scratch::new();
        let copy = strip(&own, scratch.path()).unwrap();
        assert!(mib(&copy).unwrap() < mib(&own).unwrap());
    }
}
