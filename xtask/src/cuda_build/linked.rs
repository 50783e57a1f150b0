//! What a binary is linked against, and where its libraries are.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use super::tools;

/// Libraries of every Linux with a C library and C++: not worth a word.
const ORDINARY: [&str; 8] =
    ["libc.", "libm.", "libgcc_s.", "libstdc++.", "ld-linux", "libpthread.", "libdl.", "librt."];

/// One library that a binary names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Needed {
    /// Its soname.
    pub(crate) name: String,
    /// The folder of those given that has it.
    pub(crate) folder: Option<PathBuf>,
}

/// The CUDA libraries that a binary names, looked for in some folders.
///
/// # Errors
/// That there is no readelf, or what it says.
pub(crate) fn needed(binary: &Path, folders: &[PathBuf]) -> anyhow::Result<Vec<Needed>> {
    let readelf =
        tools::on_path("readelf").context("there is no readelf (binutils) to see what a binary is linked against")?;
    let said = tools::said(Command::new(readelf).arg("-d").arg(binary).env("LC_ALL", "C"), "readelf")?;
    let find = |name: &str| folders.iter().find(|folder| folder.join(name).exists()).cloned();
    Ok(names(&said).into_iter().map(|name| Needed { folder: find(&name), name }).collect())
}

/// ` 0x0000000000000001 (NEEDED)             Shared library: [libcuda.so.1]`
fn names(dynamic: &str) -> Vec<String> {
    let named = dynamic.lines().filter(|line| line.contains("(NEEDED)"));
    let named = named.filter_map(|line| Some(line.split_once('[')?.1.split_once(']')?.0));
    named.filter(|name| !ORDINARY.iter().any(|known| name.starts_with(known))).map(str::to_owned).collect()
}

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
    fn cuda_libraries_are_named_and_ordinary_ones_are_not() {
        let dynamic = "
Dynamic section at offset 0x2d0 contains 30 entries:
  Tag        Type                         Name/Value
 0x0000000000000001 (NEEDED)             Shared library: [libcuda.so.1]
 0x0000000000000001 (NEEDED)             Shared library: [libcublasLt.so.13]
 0x0000000000000001 (NEEDED)             Shared library: [libgcc_s.so.1]
 0x0000000000000001 (NEEDED)             Shared library: [libc.so.6]
 0x000000000000001d (RUNPATH)            Library runpath: [/somewhere]
";
        assert_eq!(names(dynamic), ["libcuda.so.1", "libcublasLt.so.13"]);
    }

    #[test]
    fn this_very_program_needs_no_cuda_and_gets_smaller() {
        let own = std::env::current_exe().unwrap();
        assert_eq!(needed(&own, &[]).unwrap(), []);
        let scratch = super::super::scratch::Scratch::new();
        let copy = strip(&own, scratch.path()).unwrap();
        assert!(mib(&copy).unwrap() < mib(&own).unwrap());
    }
}
