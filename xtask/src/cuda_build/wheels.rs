//! A CUDA toolkit out of NVIDIA's Python wheels, in a virtual environment of its own.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use super::tools;

/// What is installed, each pinned: compiler, its device library and headers, runtime, C++ headers, run-time compiler, and the
/// libraries that binaries open. Nothing they would draw in themselves is.
pub(super) const PINNED: [&str; 9] = [
    "nvidia-cuda-nvcc==13.0.88",
    "nvidia-nvvm==13.0.88",
    "nvidia-cuda-crt==13.0.88",
    "nvidia-cuda-runtime==13.0.96",
    "nvidia-cuda-cccl==13.0.85",
    "nvidia-cuda-nvrtc==13.0.88",
    "nvidia-cublas==13.1.2.11",
    "nvidia-curand==10.4.5.25",
    "nvidia-nccl-cu13==2.32.3",
];

/// Where the wheels have put what they hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Laid {
    /// As `CUDA_HOME`.
    pub(super) home: PathBuf,
    /// NCCL's library.
    pub(super) nccl: PathBuf,
}

impl Laid {
    /// Adds what the wheels lack of a toolkit: build scripts look for libraries in `lib64`.
    pub(super) fn complete(&self) -> anyhow::Result<()> {
        let link = self.home.join("lib64");
        match symlink("lib", &link) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                Err(error).with_context(|| format!("cannot link {}", link.display()))
            }
            _ => Ok(()),
        }
    }
}

/// The virtual environment in a folder.
pub(super) fn environment_in(folder: &Path) -> PathBuf {
    folder.join("venv")
}

/// Makes the virtual environment anew and installs the wheels.
///
/// # Errors
/// In one line: no Python, no venv, no network, or what pip says.
pub(super) fn install(folder: &Path, say: &mut dyn FnMut(&str)) -> anyhow::Result<()> {
    let python = tools::on_path("python3")
        .context("there is no CUDA toolkit of 13.x and no python3 on the PATH to get one with; install either")?;
    let environment = environment_in(folder);
    // What an earlier attempt has left. Only what is a virtual environment is taken away.
    if environment.join("pyvenv.cfg").is_file() {
        fs::remove_dir_all(&environment).with_context(|| format!("cannot remove {}", environment.display()))?;
    }
    say(&format!("making a Python environment in {}", environment.display()));
    tools::said(Command::new(&python).args(["-m", "venv"]).arg(&environment), "python3 -m venv")
        .context("cannot make a Python environment (Debian and Ubuntu have it in the package python3-venv)")?;
    say(&format!("installing {} wheels: a download of several hundred MB", PINNED.len()));
    let mut pip = Command::new(environment.join("bin").join("python"));
    // Without a cache: it would take the same space once more.
    pip.args(["-m", "pip", "install", "--no-deps", "--no-cache-dir", "--no-input", "--disable-pip-version-check"]);
    pip.args(["--quiet", "--timeout", "30", "--retries", "2"]).args(PINNED);
    let output = pip.output().context("cannot start pip")?;
    if !output.status.success() {
        bail!("{}", why(&String::from_utf8_lossy(&output.stderr)));
    }
    Ok(())
}

/// Why pip failed. Without a network it says so in many lines, and then that there is no such version.
fn why(words: &str) -> String {
    let offline = ["NewConnectionError", "name resolution", "ConnectTimeoutError", "Network is unreachable"];
    if offline.iter().any(|sign| words.contains(sign)) {
        return "pip cannot reach its package index: there is no network, or pip needs a proxy or an index of its own \
                (PIP_INDEX_URL)"
            .to_owned();
    }
    format!("pip cannot install the wheels: {}", tools::telling(words))
}

/// Finds what was installed.
///
/// # Errors
/// That it is not there.
pub(super) fn laid(folder: &Path) -> anyhow::Result<Laid> {
    let libraries = environment_in(folder).join("lib");
    let entries = fs::read_dir(&libraries).with_context(|| format!("cannot list {}", libraries.display()))?;
    let mut pythons: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    pythons.sort();
    let nvidia = |python: &PathBuf| python.join("site-packages").join("nvidia");
    let found = pythons.iter().map(nvidia).find(|folder| folder.join("cu13").join("bin").join("nvcc").is_file());
    let nvidia = found
        .with_context(|| format!("the wheels have left no nvidia/cu13/bin/nvcc beneath {}", libraries.display()))?;
    Ok(Laid { home: nvidia.join("cu13"), nccl: nvidia.join("nccl") })
}

#[cfg(test)]
mod tests {
    use super::super::scratch::Scratch;
    use super::*;

    #[test]
    fn what_wheels_lack_is_added_once() {
        let scratch = Scratch::new();
        let laid = Laid { home: scratch.path().into(), nccl: "/n".into() };
        fs::create_dir(scratch.path().join("lib")).unwrap();
        for _ in 0..2 {
            laid.complete().unwrap();
        }
        assert!(scratch.path().join("lib64").is_dir());
    }

    #[test]
    fn every_wheel_is_pinned_to_one_version() {
        for wheel in PINNED {
            let (name, version) = wheel.split_once("==").unwrap();
            assert!(
                name.starts_with("nvidia-") && version.split('.').all(|part| part.parse::<u32>().is_ok()),
                "{wheel}"
            );
        }
    }

    #[test]
    fn a_missing_network_is_called_so() {
        let words = "WARNING: Retrying (Retry(total=4)) after connection broken by 'NewConnectionError(..)'\n\
                     ERROR: Could not find a version that satisfies the requirement nvidia-nvvm==13.0.88";
        assert!(why(words).contains("no network"));
        let words = "ERROR: No matching distribution found for nvidia-nvvm==13.0.88";
        assert_eq!(why(words), format!("pip cannot install the wheels: {words}"));
    }
}
