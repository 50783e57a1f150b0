//! A CUDA toolkit that is complete, and what cargo is told of it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::lazy;

/// A toolkit to build with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Toolkit {
    /// As `CUDA_HOME`: `bin/nvcc`, `include` and a folder of libraries are in it.
    pub(super) home: PathBuf,
    /// Folders of the libraries that binaries open when they run.
    pub(super) libraries: Vec<PathBuf>,
    /// What the linker finds in place of them.
    pub(super) lazy: PathBuf,
}

/// A folder of libraries in a toolkit: the first of these that there is.
const LIBRARY_FOLDERS: [&str; 3] = ["lib64", "lib", "targets/x86_64-linux/lib"];

impl Toolkit {
    /// Where a toolkit has its libraries.
    pub(super) fn library_folder(home: &Path) -> Option<PathBuf> {
        // `lib64` is often a link: the folder itself, so that it has one name only.
        LIBRARY_FOLDERS.iter().filter_map(|name| home.join(name).canonicalize().ok()).find(|folder| folder.is_dir())
    }

    /// The variables that a build needs, made from those there are (`PATH`, `RUSTFLAGS`).
    pub(super) fn environment(
        &self,
        capability: u32,
        given: impl Fn(&str) -> Option<OsString>,
    ) -> Vec<(&'static str, OsString)> {
        let mut folders = vec![self.home.join("bin")];
        if let Some(path) = given("PATH") {
            folders.extend(std::env::split_paths(&path));
        }
        let home = self.home.clone().into_os_string();
        let mut variables = vec![
            ("CUDA_HOME", home.clone()),
            ("CUDA_PATH", home),
            ("CUDA_COMPUTE_CAP", capability.to_string().into()),
            // Encoded: folders may have spaces in their names.
            ("CARGO_ENCODED_RUSTFLAGS", self.rust_flags(given("RUSTFLAGS").as_deref())),
        ];
        // Only folders with a colon in their name cannot be joined; nvcc is then found by CUDA_HOME.
        if let Ok(path) = std::env::join_paths(folders) {
            variables.push(("PATH", path));
        }
        variables
    }

    /// How to link, as flags of rustc, after those there are.
    fn rust_flags(&self, given: Option<&std::ffi::OsStr>) -> OsString {
        let given = given.unwrap_or_default().to_string_lossy();
        let mut flags: Vec<OsString> = given.split_whitespace().map(OsString::from).collect();
        flags.extend(lazy::flags(&self.lazy));
        flags.join(std::ffi::OsStr::new("\u{1f}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_is_told_where_the_toolkit_is_and_keeps_the_flags_that_were_given() {
        let toolkit = Toolkit { home: "/c u".into(), libraries: vec!["/c u/lib".into()], lazy: "/l z".into() };
        let given = |name: &str| match name {
            "PATH" => Some("/bin".into()),
            "RUSTFLAGS" => Some("-C debuginfo=0".into()),
            _ => None,
        };
        let variables = toolkit.environment(90, given);
        let value = |name: &str| {
            let found = variables.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| value.to_string_lossy().into_owned()).unwrap_or_default()
        };
        assert_eq!(value("CUDA_HOME"), "/c u");
        assert_eq!(value("CUDA_COMPUTE_CAP"), "90");
        assert_eq!(value("PATH"), "/c u/bin:/bin");
        assert_eq!(
            value("CARGO_ENCODED_RUSTFLAGS").split('\u{1f}').collect::<Vec<_>>(),
            [
                "-C",
                "debuginfo=0",
                "-L",
                "native=/l z",
                "-C",
                "relro-level=partial",
                "-C",
                "link-arg=-Wl,--unresolved-symbols=ignore-all"
            ]
        );
    }
}
