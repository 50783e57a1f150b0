//! The CUDA toolkit that a machine has already, if it will do.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::toolkit::Toolkit;
use super::tools::{self, find};

/// The least version of nvcc. The bindings in use are those of CUDA 13.0.
const LEAST: Release = Release { major: 13, minor: 0 };
/// What of it becomes a part of the binaries.
const RUNTIME: &str = "libcudart_static.a";

/// A version of the toolkit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Release {
    major: u32,
    minor: u32,
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl Release {
    /// From what `nvcc --version` prints: `Cuda compilation tools, release 13.0, V13.0.88`.
    fn parse(words: &str) -> Option<Self> {
        let (_, after) = words.split_once("release ")?;
        let number: String = after.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
        let (major, minor) = number.split_once('.')?;
        Some(Self { major: major.parse().ok()?, minor: minor.parse().ok()? })
    }
}

/// What was found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// It will do.
    Usable {
        /// As `CUDA_HOME`.
        home: PathBuf,
        /// Where its libraries are.
        libraries: PathBuf,
        /// Its version.
        release: Release,
    },
    /// There is one, but it will not do: why.
    Unusable(String),
    /// There is none.
    Nothing,
}

/// Looks where `CUDA_HOME` and `CUDA_PATH` say, then for `nvcc` on the `PATH`.
pub(super) fn look(given: impl Fn(&str) -> Option<OsString>) -> Found {
    let named = ["CUDA_HOME", "CUDA_PATH"].iter().find_map(|name| given(name)).filter(|home| !home.is_empty());
    let on_path = || {
        let nvcc = find("nvcc", given("PATH").as_deref())?.canonicalize().ok()?;
        Some(nvcc.parent()?.parent()?.to_path_buf())
    };
    match named.map(PathBuf::from).or_else(on_path) {
        Some(home) => judge(&home),
        None => Found::Nothing,
    }
}

fn judge(home: &Path) -> Found {
    let nvcc = home.join("bin").join("nvcc");
    if !nvcc.is_file() {
        return Found::Unusable(format!("{} has no bin/nvcc", home.display()));
    }
    let said = match tools::said(Command::new(&nvcc).arg("--version"), "nvcc") {
        Ok(said) => said,
        Err(error) => return Found::Unusable(format!("{error:#}")),
    };
    let Some(release) = Release::parse(&said) else {
        return Found::Unusable(format!("{} does not say its version", nvcc.display()));
    };
    if release < LEAST || release.major > LEAST.major {
        let why = format!("{} is {release}, but {LEAST} to {}.x is needed", nvcc.display(), LEAST.major);
        return Found::Unusable(why);
    }
    if !home.join("include").join("cuda.h").is_file() {
        return Found::Unusable(format!("{} has no include/cuda.h", home.display()));
    }
    let Some(libraries) = Toolkit::library_folder(home) else {
        return Found::Unusable(format!("{} has no folder of libraries", home.display()));
    };
    match libraries.join(RUNTIME).is_file() {
        true => Found::Usable { home: home.to_path_buf(), libraries, release },
        false => Found::Unusable(format!("{} has no {RUNTIME}", libraries.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::super::scratch::Scratch;
    use super::*;

    #[test]
    fn the_version_is_read_from_nvccs_words() {
        let words = "nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release 13.0, V13.0.88\nBuild 1";
        assert_eq!(Release::parse(words), Some(Release { major: 13, minor: 0 }));
        assert_eq!(Release::parse("release 12"), None);
        assert_eq!(Release::parse("nvcc"), None);
        assert!(Release { major: 12, minor: 9 } < LEAST);
    }

    /// A toolkit whose nvcc is a script.
    fn toolkit(version: &str, runtime: Option<&str>) -> Scratch {
        use std::os::unix::fs::PermissionsExt;
        let scratch = Scratch::new();
        for folder in ["bin", "include", "lib64"] {
            std::fs::create_dir(scratch.path().join(folder)).unwrap();
        }
        let nvcc = scratch.path().join("bin/nvcc");
        std::fs::write(&nvcc, format!("#!/bin/sh\necho 'tools, release {version}, V{version}.1'\n")).unwrap();
        std::fs::set_permissions(&nvcc, std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::write(scratch.path().join("include/cuda.h"), "").unwrap();
        if let Some(name) = runtime {
            std::fs::write(scratch.path().join("lib64").join(name), "").unwrap();
        }
        scratch
    }

    fn look_in(scratch: &Scratch) -> Found {
        look(|name| (name == "CUDA_HOME").then(|| scratch.path().into()))
    }

    #[test]
    fn a_complete_toolkit_of_the_right_version_will_do() {
        let scratch = toolkit("13.1", Some(RUNTIME));
        let home = scratch.path().to_path_buf();
        let libraries = home.join("lib64").canonicalize().unwrap();
        assert_eq!(look_in(&scratch), Found::Usable { home, libraries, release: Release { major: 13, minor: 1 } });
        let by_path = look(|name| (name == "PATH").then(|| scratch.path().join("bin").into()));
        assert!(matches!(by_path, Found::Usable { .. }), "{by_path:?}");
    }

    #[test]
    fn another_version_and_a_toolkit_without_a_runtime_will_not() {
        for (scratch, why) in [
            (toolkit("12.9", Some(RUNTIME)), "is 12.9, but 13.0 to 13.x is needed"),
            (toolkit("14.0", Some(RUNTIME)), "is 14.0, but 13.0 to 13.x is needed"),
            (toolkit("13.0", None), "has no libcudart_static.a"),
        ] {
            let found = look_in(&scratch);
            assert!(matches!(&found, Found::Unusable(said) if said.contains(why)), "{found:?} lacks {why}");
        }
        assert_eq!(look(|_| None), Found::Nothing);
    }
}
