//! Whether there is a GPU: the driver is opened and asked for its devices. Files in /dev alone say nothing: they are there without a
//! device, and missing where containers name them otherwise.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use crate::cuda_build::tools;
use crate::workspace::cargo;

/// What the driver has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// So many GPUs, at least one.
    Devices(u64),
    /// None: why.
    Nothing(String),
}

/// The driver's library, as programs load it.
const LIBRARY: &str = "libcuda.so.1";
/// Where it lies besides where the loader's cache says.
const PLACES: [&str; 6] =
    ["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/lib/wsl/lib", "/usr/local/nvidia/lib64", "/lib64"];

/// Whether there is a driver at all, by its library.
pub(super) fn is_installed() -> bool {
    has_library(std::env::var_os(super::libraries::VARIABLE).as_deref())
}

/// Why there is no GPU where there is no driver.
pub(super) fn absent() -> String {
    format!("no CUDA driver ({LIBRARY}) is installed")
}

/// Counts GPUs. This program has no unsafe code, so another one opens the driver: the binary that is to be run, with its libraries in
/// the loader's way, or a small one that is built.
///
/// # Errors
/// There is a driver, but it does not open, which is worth looking into.
pub(super) fn count(binary: Option<(&Path, Option<&OsStr>)>) -> anyhow::Result<Seen> {
    let mut command = match binary {
        Some((binary, path)) => {
            let mut command = Command::new(binary);
            command.arg("--count-devices");
            command.envs(path.map(|path| (super::libraries::VARIABLE, path)));
            command
        }
        // With `nccl` alone the driver is loaded when the program runs, and nothing of CUDA is needed to build it.
        None => {
            let mut command = cargo();
            command.args(["run", "--quiet", "--package", "nccl-rs", "--features", "nccl", "--example", "devices"]);
            command
        }
    };
    let said = tools::said(&mut command, "the program that counts GPUs").context("the CUDA driver does not open")?;
    judge(&said)
}

/// From what the program prints: a number.
fn judge(said: &str) -> anyhow::Result<Seen> {
    match said.trim().parse() {
        Ok(0) => Ok(Seen::Nothing("the CUDA driver has no device".to_owned())),
        Ok(n) => Ok(Seen::Devices(n)),
        Err(_) => bail!("the program that counts GPUs printed `{}`, which is no number", said.trim()),
    }
}

fn has_library(path: Option<&OsStr>) -> bool {
    let named: Vec<PathBuf> = path.map(|path| std::env::split_paths(path).collect()).unwrap_or_default();
    let mut folders = named.into_iter().chain(PLACES.map(PathBuf::from));
    folders.any(|folder| folder.join(LIBRARY).exists()) || super::libraries::cached().iter().any(|name| name == LIBRARY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuda_build::scratch::Scratch;

    #[test]
    fn only_a_number_of_devices_is_an_answer() {
        assert_eq!(judge("2\n").unwrap(), Seen::Devices(2));
        assert!(matches!(judge("0\n").unwrap(), Seen::Nothing(_)));
        assert!(judge("").is_err());
    }

    #[test]
    fn the_drivers_library_is_looked_for_where_the_loader_looks() {
        let scratch = Scratch::new();
        std::fs::write(scratch.path().join(LIBRARY), "").unwrap();
        assert!(has_library(Some(scratch.path().as_os_str())));
    }
}
